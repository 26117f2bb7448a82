"""Asking servers of this host over HTTP: never through a proxy."""

import urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
