"""Texts that a load test asks about, made here from a seed: pure functions, all words our own.

Text that reads like a user's matters: a model that speculates guesses well on prose and code, and
badly on random words, which are here to be measured beside it. No two salts share a beginning, so
nothing is answered from the cache of an earlier run.
"""

import random
from collections.abc import Callable, Iterator

GENRES = ("prose", "code", "table", "notes")
NOISE = "noise"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


_WHO = _words(
    "the gardener,a neighbour,the night porter,an engineer,my aunt,the baker,two students,"
    "the captain,a retired judge,the youngest clerk,our landlord,the piano tuner"
)
_DID = _words(
    "repaired,measured,described,carried home,forgot,painted,counted,borrowed,took apart,sold,"
    "photographed,hid,returned,weighed,drew a plan of"
)
_WHAT = _words(
    "the kitchen clock,a small boat,the stone wall,an empty box,the long fence,an old radio,"
    "the north window,a map of the harbour,seven letters,the broken pump,a basket of pears"
)
_WHEN = _words(
    "before the rain,on a quiet evening,last winter,while the others slept,after the meeting,"
    "in the first week of May,without saying a word,because nobody else would"
)
_THEN = _words(
    "Nobody asked why.,It took longer than expected.,The result surprised everyone.,"
    "That was the end of the matter for a while.,Afterwards the light had changed.,"
    "The cost was written down in a green book.,Only then did the dog stop barking."
)
_VERBS = _words("load,merge,filter,rank,split,count,shift,clean,match,pack")
_NOUNS = _words("orders,rooms,tickets,samples,routes,prices,events,parcels,shifts,readings")
_TOWNS = _words("Arden,Brook,Callow,Dunmere,Elmstead,Fenwick,Garth,Holm,Ivel,Kings Ash")
_TOPICS = _words(
    "the pump in the cellar,the delivery on Monday,next year's budget,the new timetable,"
    "the leaking roof,the school visit,the lease,the survey of the bridge"
)

_ASKS = {
    "prose": "Summarise this text for somebody who has not read it, and say what is left open.",
    "code": "Explain what this program does, function by function, and how you would test it.",
    "table": "Describe what this table shows, which rows stand out, and what may be wrong in it.",
    "notes": "Write minutes of this meeting: what was decided, who does what, what is unclear.",
    NOISE: "Continue.",
}


def text(genre: str, words: int, salt: str) -> str:
    """A text of a genre with about so many words and a question about it; each salt another one."""
    chance = random.Random(f"{genre} {salt}")
    parts = [f"Reference {salt}."]
    length = len(parts[0].split())
    for part in _PARTS[genre](chance):
        if length >= words:
            break
        parts.append(part)
        length += len(part.split())
    separator = " " if genre in ("prose", NOISE) else "\n"
    # Cut to the word, whatever the last part's length: two salts are equally long.
    body = separator.join(parts)
    return f"{_cut(body, words)}\n\n{_ASKS[genre]}"


def _cut(body: str, words: int) -> str:
    """The first so many words, with the line breaks and indents between them."""
    position = 0
    for word in body.split()[:words]:
        position = body.index(word, position) + len(word)
    return body[:position]


def _prose(chance: random.Random) -> Iterator[str]:
    while True:
        sentence = f"{chance.choice(_WHO)} {chance.choice(_DID)} {chance.choice(_WHAT)}"
        if chance.random() < 0.6:
            sentence += f" {chance.choice(_WHEN)}"
        if chance.random() < 0.3:
            sentence += f", and {chance.choice(_WHO)} {chance.choice(_DID)} {chance.choice(_WHAT)}"
        yield sentence[0].upper() + sentence[1:] + "."
        if chance.random() < 0.25:
            yield chance.choice(_THEN)


def _code(chance: random.Random) -> Iterator[str]:
    while True:
        verb, noun, other = chance.choice(_VERBS), chance.choice(_NOUNS), chance.choice(_NOUNS)
        limit = chance.randrange(2, 500)
        yield (
            f"def {verb}_{noun}_{chance.randrange(1000)}({noun}, limit={limit}):\n"
            f'    """{verb.title()} {noun} that belong to {other}."""\n'
            f"    found = []\n"
            f"    for index, item in enumerate({noun}):\n"
            f"        if item.{other} > limit or index % {chance.randrange(2, 9)} == 0:\n"
            f"            found.append((item.name, item.{other} * {chance.randrange(2, 40)}))\n"
            f"    return sorted(found, key=lambda pair: pair[1])\n"
        )


def _table(chance: random.Random) -> Iterator[str]:
    yield f"town | month | {chance.choice(_NOUNS)} | {chance.choice(_NOUNS)} | share"
    while True:
        cells = (chance.randrange(10, 9000), chance.randrange(1, 400), chance.random())
        month = f"{chance.randrange(2015, 2026)}-{chance.randrange(1, 13):02}"
        yield f"{chance.choice(_TOWNS)} | {month} | {cells[0]} | {cells[1]} | {cells[2]:.3f}"


def _notes(chance: random.Random) -> Iterator[str]:
    while True:
        who, topic = chance.choice(_WHO), chance.choice(_TOPICS)
        yield f"- {who}: {topic}; {chance.choice(_WHO)} wants it by the {chance.randrange(2, 29)}th"
        if chance.random() < 0.5:
            yield f"  asked back: has anybody {chance.choice(_DID)} {chance.choice(_WHAT)}?"


def _noise(chance: random.Random) -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    while True:
        yield "".join(chance.choices(letters, k=chance.randrange(2, 9)))


_PARTS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "prose": _prose,
    "code": _code,
    "table": _table,
    "notes": _notes,
    NOISE: _noise,
}
