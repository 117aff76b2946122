"""What the verbs on sessions answer: plain values, of text, numbers, bytes and tuples of them; one file a kind.

Ids are in hex, devices as a person reads them. Texts are as they came, of unknown origin: whoever prints one makes it
visible first.
"""
