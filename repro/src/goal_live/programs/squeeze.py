# Compression of text by liblzma, as xz does it. Each line read asks for so many pieces of 2 KiB.
import lzma
import random
import sys

WORDS = 20000
DICTIONARY = {8: 32 << 20, 6: 8 << 20}

preset = int(sys.argv[1])
draw = random.Random(1)
letters = "etaoinshrdlucmfw"
words = ["".join(draw.choices(letters, k=draw.randint(2, 9))).encode() for _ in range(WORDS)]
upto = []
total = 0.0
for rank in range(WORDS):
    total += 1.0 / (rank + 1)
    upto.append(total)


def piece(size):
    text = b" ".join(draw.choices(words, cum_weights=upto, k=size // 5))
    return text[:size]


squeezer = lzma.LZMACompressor(preset=preset)
for _ in range(DICTIONARY[preset] >> 16):
    squeezer.compress(piece(1 << 16))
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        squeezer.compress(piece(1 << 11))
    print("done", flush=True)
