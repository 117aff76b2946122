"""The 256 words that a person compares on two screens: one stands for each value of a byte (`pairing.md`).

Short English words of everyday things that sound unlike one another; their first four letters differ. The order is
part of the protocol.
"""

from __future__ import annotations

_TEXT = """
acid acorn actor adult agent album alley almond amber anchor angel ankle antler apple apron arch arrow artist
atlas attic autumn avenue axle baby bacon badge bagel ball bamboo banjo barn basket bathtub beach beard beetle
bell berry bicycle bishop blanket blossom boat bonfire bottle boulder bracelet bread brick bubble bucket buffalo
bullet butter cabin cactus camera candle canyon captain carrot castle cedar cello chalk cherry chimney cider
circus clock clover cobweb coffee comet copper coral cotton cousin cradle crayon cricket crown cuckoo curtain
cushion dagger daisy dancer deer desert diamond dinner doctor dolphin donkey dragon drawer drum duchess dust
eagle earring easel echo eclipse elbow elephant elm emerald engine envelope eyebrow fabric falcon farmer feather
fence ferry fiddle finger flag flute fog forest fossil fountain fox freckle frog fungus garden garlic gate ghost
giant ginger glacier glove goat gold goose grape gravel guitar hammer harbor hat hazel hedge helmet heron hockey
honey horse hotel hurdle iceberg igloo insect iris island ivory jacket jaguar jasmine jelly jigsaw jockey judge
juniper kayak kettle kidney kitchen kiwi knight ladder lagoon lantern lemon leopard library lily lizard lobster
lotus lunch magnet mango maple marble meadow melon mirror monkey moss mountain muffin museum napkin nectar
needle nickel noodle nurse oasis oboe ocean octopus olive onion orange orchid otter oven owl oyster paddle
palace panda parrot peach pebble pencil pepper piano pigeon pillow planet pocket pony potato puddle pumpkin
puzzle quarry quilt rabbit radio raven ribbon river robin rocket saddle salmon saturn scarf school shadow shovel
silver spider spoon sunset tiger
"""

WORDS = tuple(_TEXT.split())


def words_of(raw: bytes) -> tuple[str, ...]:
    """Return the word of each byte."""
    return tuple(WORDS[byte] for byte in raw)
