"""An archive for somebody who helps, without anything private."""
