"""Short stories: a hero, a friend, a place and a thing run through one of a dozen plots.

A plot is a list of beats and a beat a choice of sentences, so that one plot alone has
thousands of tellings while hero, friend and place stay the same from first to last line.
"""

from . import ask, spoken
from .words import BOYS, GIRLS, NOUNS, article, city, invented, scrambled

ANIMALS = """fox wolf bear deer rabbit hare otter badger squirrel hedgehog mouse cat dog horse goat sheep lion tiger elephant giraffe monkey camel owl eagle sparrow robin swan duck goose crow
heron turtle frog snail crab seal dragon beaver mole penguin parrot donkey panda koala raven""".split()
PEOPLE = "girl boy baker sailor farmer painter gardener knight wizard king queen princess prince pirate teacher miller fisherman shepherd robot giant".split()
FEMALE, MALE = {"girl", "queen", "princess"}, {"boy", "king", "prince", "fisherman"}
PLACES = """in the forest; in the old forest; in the mountains; on a small island; by the sea; in a quiet village; in the desert; in a big city; on a farm; in the valley; by the river; in a castle; in the jungle; in a deep cave;
at the harbour; on a hill; in the snow; in a garden; by the lake; in a lighthouse; on the moon; in a small town; in the meadow; at the edge of the world; in an old windmill; on a ship; under the old bridge; in the swamp;
in the royal palace; near the waterfall""".replace("\n", " ").split("; ")
THINGS = """golden key; silver bell; old map; blue lantern; wooden flute; red kite; magic seed; glass marble; warm scarf; brass compass; little drum; shiny coin; music box; green umbrella; paper boat; honey jar; feather pen; star stone; tin whistle; crystal cup""".replace("\n", " ").split("; ")
MOODS = "cheerful curious brave shy clever gentle patient lively kind dreamy stubborn careful".split()
WEATHER = ["One bright morning", "One rainy afternoon", "One cold evening", "Early one spring day", "On a warm summer day", "One windy autumn day", "On the first day of winter", "One foggy morning", "Just before sunset", "One quiet night"]

OPENINGS = [
    "Once upon a time there was {k} named {N} who lived {in}.", "There once was {k} called {N}, and {he} lived {in}.", "Long ago, {in}, there lived {mk} named {N}.",
    "{N} was {mk} who lived {in}.", "Once upon a time, {in}, there lived {k} named {N}.", "This is the story of {N}, {mk} who lived {in}.", "Far away, {in}, lived {k} whose name was {N}.",
]
HABITS = [
    "Every day {he} went for a long walk and greeted everyone {he} met.", "{He} loved to sing, even when nobody was listening.", "{He} liked nothing better than a good question.",
    "{He} knew every path and every stone, and {he} was never in a hurry.", "In the evening {he} liked to count the stars until {he} fell asleep.", "{He} was small, but {his} heart was big.",
    "{He} kept {his} home tidy and always had a cup of tea ready for guests.", "{He} was known for {his} laugh, which could be heard from far away.",
]
FRIENDS = [
    "{His} best friend was {F}, {fk} with a sharp mind.", "Next door lived {F}, {fk} who was never far away.", "{F}, {fk}, was {his} oldest friend.", "{He} shared all {his} secrets with {F}, {fk} who lived nearby.",
]
PLOTS = [
    [  # something is lost
        ["{W}, {N} noticed that {his} {T} was gone.", "{W}, {N} looked for {his} {T}, but it was nowhere to be found."],
        ["{He} searched under the bed, behind the door and even in the soup pot.", "{He} turned every box upside down, but found only dust.", "{He} looked in all the usual places, and then in all the unusual ones."],
        ["\"Have you seen my {T}?\" {he} asked {F}.", "{He} ran to {F} and cried, \"My {T} is lost!\"", "Sadly {he} went to {F} and told {fhim} about the {T}."],
        ["\"Let us follow the footprints,\" said {F}.", "\"When did you see it last?\" asked {F} in a calm voice.", "{F} thought for a while and said, \"We will look together.\""],
        ["Side by side they walked back the whole way, step by step.", "They looked at every corner and asked every bird.", "Together they followed a thin line of marks in the dust."],
        ["At last they saw something shine between the roots of a tree.", "Then {F} stopped and pointed at a hole in the ground.", "Suddenly {N} heard a tiny sound from behind a stone."],
        ["It was the {T}, safe and sound.", "There lay the {T}, as if it had only been asleep.", "And there it was: the {T}, a little dusty but whole."],
        ["\"You found it!\" cried {N} and hugged {F}.", "{N} was so happy that {he} danced in a circle.", "{N} held the {T} close and could not stop smiling."],
    ],
    [  # a storm
        ["{W}, dark clouds came over the land.", "{W}, the wind began to howl and the sky turned black."],
        ["{N} saw that a storm was coming and closed all the windows.", "\"This will be a big storm,\" {N} said to {himself}."],
        ["Then {he} remembered {F}, who had gone out alone.", "But {F} was still outside, and {N} began to worry.", "Through the rain {he} heard a weak voice: it was {F}."],
        ["{N} took {his} {T} and ran out into the rain.", "Without waiting, {N} grabbed the {T} and went out to help."],
        ["The wind pushed {him} back, but {he} did not give up.", "Rain fell into {his} eyes, and every step was hard.", "Twice {he} fell down, and twice {he} stood up again."],
        ["At last {he} found {F} under a fallen branch.", "{He} found {F} behind a big stone, wet and cold.", "There, next to a broken fence, sat {F}, shaking."],
        ["\"I knew you would come,\" whispered {F}.", "\"Take my hand,\" said {N}, \"we are going home.\"", "\"Do not be afraid,\" said {N}, \"I am here now.\""],
        ["Together they reached the house and sat down by the warm fire.", "Slowly they made their way back, and soon they drank hot soup by the fire."],
    ],
    [  # a contest
        ["{W}, a great race was announced, and everybody wanted to win.", "{W}, a letter came: there would be a big contest, and the prize was {T_a}."],
        ["{N} was not the fastest, but {he} wanted to try.", "\"I have never won anything,\" said {N}, \"but I will do my best.\""],
        ["{F} promised to help {him} practise.", "Every morning {F} woke {him} up to practise before breakfast."],
        ["For seven days they trained from dawn till dusk.", "They ran up the hill and down again until their legs were tired.", "At first it went badly, but day by day it went better."],
        ["On the day of the contest, the crowd cheered and the drums played.", "When the big day came, {N} was so nervous that {he} forgot {his} breakfast."],
        ["Halfway through, {N} saw that another runner had fallen.", "Near the end, {N} saw a little one crying beside the road."],
        ["{He} stopped and helped, although the others ran past.", "{N} did not think twice and stopped to help."],
        ["{N} came in last, but the crowd cheered for {him} the loudest.", "{He} did not win, yet the judges gave {him} the {T} for {his} kind heart."],
        ["\"I am proud of you,\" said {F}.", "\"That was better than winning,\" said {F}."],
    ],
    [  # a map and a treasure
        ["{W}, {N} found an old piece of paper inside a book.", "{W}, a bottle with a map in it rolled before {his} feet."],
        ["It showed a path, three trees and a big red cross.", "On it was a drawing of a hill, a well and a strange sign."],
        ["\"This must be a treasure map!\" said {F}.", "{He} showed it to {F}, whose eyes grew wide."],
        ["They packed some bread and a rope and set out at once.", "They took a lamp, two apples and a lot of courage."],
        ["They crossed a bridge, climbed over rocks and slept under the stars.", "The path was long, and more than once they lost their way.", "An old crow showed them the way in exchange for a piece of bread."],
        ["Under the third tree they began to dig.", "At the place of the cross they dug until their arms were tired."],
        ["Deep in the earth they found a box, and in the box lay {T_a}.", "At last they hit something hard: it was a chest, and in it lay {T_a}."],
        ["It was not gold, but it was the most beautiful thing they had ever seen.", "\"It is not worth much money,\" said {F}, \"but we found it together.\""],
        ["They decided to share it: one day for {N}, one day for {F}.", "They put it on the shelf where both of them could see it."],
    ],
    [  # learning something
        ["{W}, {N} heard a lovely tune from far away.", "{W}, {N} watched the others play music and wished to play as well."],
        ["{He} wanted to learn to play it, but {he} did not know how.", "\"I will never be able to do that,\" {he} sighed."],
        ["\"Everybody starts small,\" said {F}.", "{F} smiled and said, \"I can teach you, if you are patient.\""],
        ["The first day, everything sounded wrong.", "At the beginning {he} made one mistake after another."],
        ["{N} wanted to give up and threw {his} {T} into a corner.", "After a week {he} was so tired that {he} hid the {T} in a drawer."],
        ["But {F} sat down beside {him} and said, \"Try once more, only once.\"", "But {F} picked it up, cleaned it and gave it back without a word."],
        ["So {N} tried once more, and then once more after that.", "So {he} practised every evening, slowly and with care."],
        ["Weeks went by, and one evening the tune was there, clear and sweet.", "And one day, without noticing, {he} played the whole tune."],
        ["Everyone came out to listen and clapped for a long time.", "{F} closed {fhis} eyes and listened until the last note."],
    ],
    [  # a sick friend
        ["{W}, {F} did not come out to play.", "{W}, {F} stayed in bed with a bad cough."],
        ["{N} knocked on the door and heard a weak voice.", "{N} found {fhim} pale and tired under three blankets."],
        ["\"Only the white flower from the high rock can help,\" said the doctor.", "The old healer said, \"{F_} needs a tea made of moon grass.\""],
        ["\"Then I will get it,\" said {N}.", "{N} did not wait a minute and packed {his} bag."],
        ["The way was steep, and the night was cold.", "{He} walked all night with only the {T} to keep {him} company."],
        ["A river blocked the road, but {he} built a raft from branches.", "A big bird blocked the path, but {he} gave it the {T}, and it let {him} pass."],
        ["At sunrise {he} found what {he} was looking for.", "When the sun rose, {he} saw it growing between two stones."],
        ["{He} ran home as fast as {he} could and made the tea.", "Back home {he} cooked the medicine with great care."],
        ["After three days {F} was well again and jumped out of bed.", "{F} drank it, slept for a day and woke up healthy."],
    ],
    [  # a stranger
        ["{W}, a stranger came and asked for a place to sleep.", "{W}, somebody knocked at the door, and nobody knew who it was."],
        ["The others were afraid and closed their doors.", "\"We do not know you,\" said the neighbours and went away."],
        ["But {N} said, \"Come in, there is room for two.\"", "But {N} made soup and put a second bowl on the table."],
        ["The stranger was {fk} called {F} and had come a long way.", "\"My name is {F},\" said the guest, {fk}, \"and I have walked for forty days.\""],
        ["All evening {F} told of far lands and strange animals.", "{F} told one story after another until the candle burned down."],
        ["In the morning {F} gave {him} {T_a} as a gift.", "When the sun rose, {F} put {T_a} on the table to say thank you."],
        ["\"Use it when you are lonely,\" said {F}.", "\"It will bring you luck,\" said {F}, \"as you brought me luck.\""],
        ["{N} asked {F} to stay, and {F} said yes.", "\"Stay with us,\" said {N}, and so {F} stayed."],
        ["Soon the neighbours came too, and everyone wanted to hear the stories.", "After that, no door was ever closed to a stranger again."],
    ],
    [  # a strange sound
        ["{W}, {N} heard a strange sound, as if somebody was crying.", "{W}, a deep hum came out of the ground and would not stop."],
        ["Nobody else seemed to notice it, so {he} told {F}.", "\"Do you hear that too?\" {he} asked {F}, and {F} nodded."],
        ["They took the {T} and went to find out what it was.", "With the {T} in {his} bag, {N} led the way, and {F} came close behind."],
        ["The sound grew louder with every step.", "They listened at every stone and every hollow tree."],
        ["\"What if it is a monster?\" whispered {F}.", "\"I am a little afraid,\" said {N}, \"but I want to know.\""],
        ["Behind a curtain of leaves they found a tiny baby bird that had fallen from its nest.", "In a hole they found a lost kitten with big round eyes."],
        ["{N} warmed it in {his} hands while {F} looked for food.", "They gave it water and sang a quiet song until it slept."],
        ["The next day they carried it back to its mother.", "Before noon they found its mother, who had searched the whole night."],
        ["\"Thank you,\" said the mother, \"I will never forget this.\"", "From then on, the little one visited them every morning."],
    ],
    [  # a hungry winter
        ["{W}, {N} saw that there was almost no food left.", "{W}, the shelves were empty and the ground was frozen."],
        ["{He} had only one loaf of bread, and it had to last.", "All that {he} had was a small bag of nuts."],
        ["Then {F} came by, thin and cold.", "On the road {he} met {F}, who had not eaten for two days."],
        ["{N} looked at the food, and then at {F}.", "For a moment {N} wanted to hide it."],
        ["Then {he} broke it in two and gave {F} the bigger half.", "\"Half for you and half for me,\" {he} said with a smile."],
        ["{F} was so thankful that {fhe} showed {him} a secret place.", "\"Now I will share something with you,\" said {F}."],
        ["Under the snow, behind an old wall, there was a store full of apples and {T_a} on a hook.", "Deep in a cave there were baskets of corn, and above them hung {T_a}."],
        ["There was enough for everyone until spring.", "They called all the others, and nobody was hungry that winter."],
    ],
    [  # a birthday
        ["{W}, {N} woke up and thought, \"Today is {F}'s birthday!\"", "{W}, {N} remembered that tomorrow would be {F}'s birthday."],
        ["But {he} had no gift and no money at all.", "{He} wanted to give {fhim} something that nobody else could give."],
        ["{He} tried to bake a cake, but it burned.", "First {he} painted a picture, but the wind carried it away."],
        ["Then {he} tried to write a song, but {he} could not find a rhyme.", "Then {he} built a chair, but it had only two legs."],
        ["{N} sat down and almost cried.", "\"Nothing works today,\" said {N} and sat down on a stone."],
        ["Just then {his} eyes fell on {his} own {T}, the thing {he} loved most.", "Then {he} saw {his} {T} on the shelf and had an idea."],
        ["{He} cleaned it, wrapped it in leaves and went to the party.", "{He} tied a ribbon around it and ran to {F}'s house."],
        ["When {F} opened it, {fhe} was silent for a long time.", "{F} opened the gift and tears came to {fhis} eyes."],
        ["\"You gave me your {T},\" {fhe} said, \"so let us always use it together.\"", "\"This is the best gift I ever got,\" said {F} and hugged {him}."],
    ],
    [  # something broken
        ["{W}, the only bridge broke with a loud crack.", "{W}, the old mill stopped turning, and nobody knew why."],
        ["Everybody was upset, for it was needed every day.", "People shouted and blamed each other."],
        ["\"I will mend it,\" said {N}, and the others laughed.", "{N} said quietly, \"Perhaps I can repair it.\""],
        ["Only {F} stayed and carried wood.", "\"I will help you,\" said {F} and rolled up {fhis} sleeves."],
        ["They measured, sawed and hammered all day long.", "All night long they worked by the light of a lamp."],
        ["One last piece was missing, and it had to be small and strong.", "But one hole was left, and nothing would fit."],
        ["Then {N} took out {his} {T}, and it fitted perfectly.", "{N} tried {his} {T}, and it was just the right size."],
        ["In the morning everything worked again, and no one laughed any more.", "At sunrise the work was done, and everybody came to look."],
        ["\"We could not have done it without you,\" said the oldest of them.", "The others said sorry and brought a big basket of cake."],
    ],
    [  # a wish
        ["{W}, {N} helped an old woman carry her basket.", "{W}, {N} pulled a tiny fish out of a net and set it free."],
        ["\"You are kind,\" came the answer, \"so you have one wish.\"", "To {his} surprise {he} heard a voice: \"I will give you one wish.\""],
        ["{N} thought of gold, of a palace, and of {T_a}.", "{He} could not decide and went to ask {F}."],
        ["\"What would you wish for?\" {he} asked {F}.", "{F} said, \"I would wish for something that lasts.\""],
        ["All day they talked about it, and the sun went down.", "They sat on a bench and thought until the stars came out."],
        ["\"I have it,\" said {N} at last.", "Then {N} smiled, for {he} knew the answer."],
        ["\"I wish that we always stay friends,\" {he} said.", "\"I wish for a tree that gives fruit for everyone,\" {he} said."],
        ["There was a flash of light, and then it was quiet.", "A warm wind blew, and the air smelled of flowers."],
        ["Next morning {he} found {T_a} at {his} door with a note: \"Well chosen.\"", "And truly, the wish came true, and it never ended."],
    ],
]
ENDINGS = [
    "That night {N} slept better than ever before.", "And from that day on, {N} and {F} were never apart for long.", "They laughed and talked until the moon stood high above them.", "And if you walk by on a quiet day, you may still hear them laugh.",
    "{N} looked up at the sky and felt very lucky.",
]
MORALS = [
    "And so {N} learned that a good friend is worth more than gold.", "After that day, everybody knew that small ones can do great things.", "And {N} never forgot that help comes to those who help.",
    "So they lived happily {in} for many years.", "And that is the end of the story of {N} and {F}.", "Since then, {N} has told this story every year.",
]

PRONOUNS = {"she": ("she", "her", "her", "herself"), "he": ("he", "his", "him", "himself")}
REQUESTS = ["Tell me a story {w}.", "Write a story {w}.", "Tell me a short story {w}.", "Write a short story {w}.", "Can you tell a story {w}?", "I would like a story {w}.", "Story {w}", "Please write a story {w}.",
            "Make up a story {w}.", "A story {w}, please.", "Tell a tale {w}.", "Write me a little story {w}.", "Invent a story {w}.", "Give me a story {w}.", "I want to hear a story {w}.", "Could you write a bedtime story {w}?"]
PLAIN = ["Tell me a story.", "Write a story.", "Tell me a short story.", "A story, please.", "Can you tell me a story?", "Write a short story.", "Tell me a bedtime story.", "story", "Surprise me with a story.", "Make up a story."]


def person(rng, kind=None):
    """A kind, a gender that fits it, and a name that fits both."""
    kind = kind or rng.choice(ANIMALS if rng.random() < 0.65 else PEOPLE)
    gender = "she" if kind in FEMALE else "he" if kind in MALE else rng.choice(("she", "he"))
    return kind, gender, common_name(rng, gender)


def common_name(rng, gender, taken=None):
    return rng.choice([n for n in (GIRLS if gender == "she" else BOYS) if n != taken])


def slots(rng, hero, friend, place, thing):
    kind, gender, called = hero
    friend_kind, friend_gender, friend_called = friend
    he, his, him, himself = PRONOUNS[gender]
    fhe, fhis, fhim, _ = PRONOUNS[friend_gender]
    return {
        "N": called, "F": friend_called, "F_": friend_called, "k": article(kind), "mk": article(f"{rng.choice(MOODS)} {kind}"), "fk": article(f"{rng.choice(MOODS)} {friend_kind}"), "in": place,
        "T": thing, "T_a": article(thing), "W": rng.choice(WEATHER), "he": he, "his": his, "him": him, "himself": himself, "He": he.capitalize(), "His": his.capitalize(),
        "fhe": fhe, "fhis": fhis, "fhim": fhim,
    }


def tell(rng, hero, friend, place, thing):
    """One telling; a stranger's plot introduces the friend itself."""
    plot = rng.choice(PLOTS)
    fill = slots(rng, hero, friend, place, thing)
    beats = [rng.choice(OPENINGS), rng.choice(HABITS)]
    stranger = plot is PLOTS[6]
    if not stranger:
        beats.append(rng.choice(FRIENDS))
    beats += [rng.choice(beat) for beat in plot]
    beats += [rng.choice(ENDINGS), rng.choice(MORALS)]
    paragraphs = [" ".join(beats[:3]), " ".join(beats[3:7]), " ".join(beats[7:])]
    return "\n\n".join(paragraphs).format(**fill)


def scene(rng):
    hero, friend = person(rng), person(rng)
    while friend[2] == hero[2] or friend[0] == hero[0]:
        friend = person(rng)
    place = rng.choice(PLACES) if rng.random() < 0.8 else f"in {city(rng)}"
    return hero, friend, place, rng.choice(THINGS)


def renamed(rng, who):
    """Now and then a name, or a kind, that no table holds: people ask for such heroes."""
    kind, gender, called = who
    if rng.random() < 0.35:
        called = (invented(rng, rng.choice((1, 1, 2))) if rng.random() < 0.7 else scrambled(rng)[:4]).capitalize()
    if rng.random() < 0.08:
        kind = rng.choice(NOUNS) if rng.random() < 0.5 else invented(rng, 2)
    return kind, gender, called


def wish(rng, hero, friend, place, thing):
    """What the user asks for, who is in it then, and the words that must occur in the story."""
    odd_hero, odd_friend = renamed(rng, hero), renamed(rng, friend)
    if odd_hero[0] != odd_friend[0] and odd_hero[2] != odd_friend[2]:
        hero, friend = odd_hero, odd_friend
    who = rng.choice(("{k} named {N}", "{k} called {N}", "{N} the {kind}", "{k}", "{N}, {k}", "{k} whose name is {N}"))
    text = who.format(k=article(hero[0]), N=hero[2], kind=hero[0])
    needed = [hero[0]]
    if "{N}" in who:
        needed.append(hero[2])
    else:
        hero = (*hero[:2], common_name(rng, hero[1], friend[2]))
    if rng.random() < 0.4:
        other = rng.choice(("{k} named {N}", "{k} called {N}", "{k}"))
        text += " and " + other.format(k=article(friend[0]), N=friend[2])
        needed.append(friend[0])
        if "{N}" in other:
            needed.append(friend[2])
        else:
            friend = (*friend[:2], common_name(rng, friend[1], hero[2]))
    else:
        friend = person(rng)
        while friend[0] == hero[0] or friend[2] == hero[2]:
            friend = person(rng)
    if rng.random() < 0.6:
        text += " " + place
        needed.append(place)
    if rng.random() < 0.2:
        text += f"{rng.choice((' with', ' and'))} {article(thing)}"
        needed.append(thing)
    return f"about {text}", needed, hero, friend


def sample(rng):
    hero, friend, place, thing = scene(rng)
    if rng.random() < 0.1:
        return ask(spoken(rng, rng.choice(PLAIN)), tell(rng, hero, friend, place, thing), {"type": "story", "value": []})
    wanted, needed, hero, friend = wish(rng, hero, friend, place, thing)
    story = tell(rng, hero, friend, place, thing)
    while not all(part in story for part in needed):  # not every plot has a use for the thing
        story = tell(rng, hero, friend, place, thing)
    question = rng.choice(REQUESTS).format(w=wanted)
    return ask(question if hero[2] in question or friend[2] in question or " in " in wanted else spoken(rng, question), story, {"type": "story", "value": needed}, f"story {wanted}")
