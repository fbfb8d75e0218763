"""Tables of the small world, and makers of words nobody has seen before."""

CAPITALS = dict(
    row.strip().split("=")
    for row in """
    Norway=Oslo; Sweden=Stockholm; Denmark=Copenhagen; Finland=Helsinki; Iceland=Reykjavik; Ireland=Dublin;
    the United Kingdom=London; France=Paris; Spain=Madrid; Portugal=Lisbon; Germany=Berlin; Austria=Vienna;
    Switzerland=Bern; Italy=Rome; Greece=Athens; Poland=Warsaw; Hungary=Budapest; Romania=Bucharest;
    Bulgaria=Sofia; Serbia=Belgrade; Croatia=Zagreb; Slovenia=Ljubljana; Slovakia=Bratislava; the Czech Republic=Prague;
    Belgium=Brussels; the Netherlands=Amsterdam; Estonia=Tallinn; Latvia=Riga; Lithuania=Vilnius; Ukraine=Kyiv;
    Albania=Tirana; Turkey=Ankara; Cyprus=Nicosia; Malta=Valletta; Egypt=Cairo; Morocco=Rabat; Tunisia=Tunis;
    Algeria=Algiers; Libya=Tripoli; Sudan=Khartoum; Ethiopia=Addis Ababa; Kenya=Nairobi; Uganda=Kampala;
    Rwanda=Kigali; Ghana=Accra; Nigeria=Abuja; Senegal=Dakar; Mali=Bamako; Angola=Luanda; Zambia=Lusaka;
    Zimbabwe=Harare; Namibia=Windhoek; Botswana=Gaborone; Madagascar=Antananarivo; Mozambique=Maputo; Somalia=Mogadishu;
    Russia=Moscow; Georgia=Tbilisi; Armenia=Yerevan; Azerbaijan=Baku; Iran=Tehran; Iraq=Baghdad; Syria=Damascus;
    Lebanon=Beirut; Jordan=Amman; Saudi Arabia=Riyadh; Qatar=Doha; Oman=Muscat; Yemen=Sanaa; Kuwait=Kuwait City;
    India=New Delhi; Pakistan=Islamabad; Nepal=Kathmandu; Bhutan=Thimphu; Bangladesh=Dhaka; Afghanistan=Kabul;
    Kazakhstan=Astana; Uzbekistan=Tashkent; Mongolia=Ulaanbaatar; China=Beijing; Japan=Tokyo; South Korea=Seoul;
    North Korea=Pyongyang; Vietnam=Hanoi; Thailand=Bangkok; Laos=Vientiane; Cambodia=Phnom Penh; Malaysia=Kuala Lumpur;
    Indonesia=Jakarta; the Philippines=Manila; Australia=Canberra; New Zealand=Wellington; Fiji=Suva; Samoa=Apia;
    Canada=Ottawa; the United States=Washington; Mexico=Mexico City; Guatemala=Guatemala City; Honduras=Tegucigalpa;
    Nicaragua=Managua; Costa Rica=San Jose; Panama=Panama City; Cuba=Havana; Jamaica=Kingston; Haiti=Port-au-Prince;
    Colombia=Bogota; Venezuela=Caracas; Ecuador=Quito; Peru=Lima; Bolivia=Sucre; Chile=Santiago; Argentina=Buenos Aires;
    Uruguay=Montevideo; Paraguay=Asuncion; Brazil=Brasilia; Guyana=Georgetown; Suriname=Paramaribo; Belize=Belmopan
    """.replace("\n", " ").split(";")
)

OPPOSITES = [
    tuple(pair.split("/"))
    for pair in """hot/cold big/small tall/short fast/slow happy/sad old/young light/dark hard/soft wet/dry full/empty
    open/closed clean/dirty rich/poor strong/weak thick/thin wide/narrow deep/shallow early/late loud/quiet high/low
    near/far up/down left/right in/out on/off over/under above/below before/after first/last always/never
    day/night summer/winter north/south east/west black/white good/bad right/wrong true/false yes/no easy/difficult
    cheap/expensive safe/dangerous brave/afraid sweet/sour smooth/rough sharp/blunt straight/crooked tight/loose
    heavy/weightless awake/asleep alive/dead sick/healthy hungry/sated kind/cruel polite/rude calm/nervous
    lazy/busy simple/complex common/rare modern/ancient public/private inside/outside begin/end start/stop
    buy/sell give/take push/pull win/lose laugh/cry love/hate come/go arrive/leave remember/forget build/destroy
    find/hide rise/fall float/sink lend/borrow teach/learn ask/answer accept/refuse agree/disagree increase/decrease
    friend/enemy top/bottom front/back question/reply sunrise/sunset success/failure victory/defeat war/peace
    more/less many/few everything/nothing everyone/nobody everywhere/nowhere possible/impossible visible/invisible
    useful/useless careful/careless patient/impatient honest/dishonest lucky/unlucky""".split()
]

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
SEASONS = dict(zip(MONTHS, ["winter"] * 2 + ["spring"] * 3 + ["summer"] * 3 + ["autumn"] * 3 + ["winter"]))
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()

THING_COLOURS = {
    thing: colour
    for colour, things in {
        "blue": "the sky, the sea, a blueberry",
        "green": "grass, a leaf, a lime, a cucumber, a frog, a pea, broccoli, spinach",
        "yellow": "a banana, a lemon, the sun, cheese, butter, a canary",
        "white": "snow, milk, salt, sugar, a swan, a cloud, rice, a polar bear, chalk",
        "black": "coal, ink, a raven, tar",
        "red": "a tomato, blood, a strawberry, a cherry, a fire engine, a ruby",
        "orange": "an orange, a carrot, a pumpkin, an apricot",
        "brown": "chocolate, soil, bread, rust, a chestnut, coffee",
        "pink": "a flamingo, a pig",
        "purple": "an aubergine, lavender",
        "grey": "an elephant, a mouse, ash",
    }.items()
    for thing in things.split(", ")
}
MIXES = {
    ("red", "blue"): "purple", ("red", "yellow"): "orange", ("blue", "yellow"): "green", ("black", "white"): "grey",
    ("red", "white"): "pink", ("blue", "white"): "light blue", ("red", "green"): "brown",
}
UNITS = [
    ("centimetres", "a metre", 100), ("millimetres", "a centimetre", 10), ("metres", "a kilometre", 1000),
    ("millimetres", "a metre", 1000), ("grams", "a kilogram", 1000), ("kilograms", "a tonne", 1000),
    ("millilitres", "a litre", 1000), ("seconds", "a minute", 60), ("minutes", "an hour", 60), ("hours", "a day", 24),
    ("days", "a week", 7), ("months", "a year", 12), ("weeks", "a year", 52), ("days", "a year", 365),
    ("years", "a decade", 10), ("years", "a century", 100), ("inches", "a foot", 12), ("feet", "a yard", 3),
    ("items", "a dozen", 12), ("cents", "a dollar", 100), ("degrees", "a full circle", 360), ("degrees", "a right angle", 90),
    ("sides", "a triangle", 3), ("sides", "a square", 4), ("sides", "a hexagon", 6), ("sides", "a pentagon", 5),
    ("legs", "a spider", 8), ("legs", "an insect", 6), ("bits", "a byte", 8), ("letters", "the English alphabet", 26),
]
SOUNDS = {
    "dog": "barks", "cat": "meows", "cow": "moos", "duck": "quacks", "lion": "roars", "sheep": "bleats", "horse": "neighs",
    "pig": "grunts", "frog": "croaks", "snake": "hisses", "bee": "buzzes", "wolf": "howls", "owl": "hoots", "rooster": "crows",
    "mouse": "squeaks", "donkey": "brays", "elephant": "trumpets", "crow": "caws", "bird": "chirps", "goose": "honks",
}
BABIES = {
    "dog": "puppy", "cat": "kitten", "cow": "calf", "duck": "duckling", "lion": "cub", "sheep": "lamb", "horse": "foal",
    "pig": "piglet", "frog": "tadpole", "goat": "kid", "hen": "chick", "deer": "fawn", "goose": "gosling", "swan": "cygnet",
    "bear": "cub", "kangaroo": "joey", "owl": "owlet", "eagle": "eaglet", "rabbit": "kit",
}

CATEGORIES = {
    "animals": """fox wolf bear deer rabbit hare otter badger squirrel hedgehog mouse cat dog horse cow goat sheep pig lion tiger
    elephant giraffe zebra monkey camel kangaroo koala panda beaver mole""".split(),
    "birds": "owl eagle sparrow robin swan duck goose crow raven heron stork pigeon parrot penguin falcon wren finch swallow".split(),
    "sea animals": "whale dolphin shark octopus crab lobster seal turtle jellyfish starfish squid tuna salmon walrus".split(),
    "fruits": "apple pear plum cherry peach grape lemon orange banana mango fig melon apricot strawberry raspberry kiwi lime".split(),
    "vegetables": "carrot potato onion tomato cabbage pea bean spinach leek pumpkin cucumber radish lettuce beetroot broccoli celery".split(),
    "colours": "red blue green yellow orange purple pink brown black white grey gold silver turquoise".split(),
    "jobs": """baker teacher doctor farmer sailor painter carpenter pilot nurse cook tailor gardener driver miner dentist plumber
    singer writer""".split(),
    "tools": "hammer saw drill spade rake axe chisel screwdriver wrench pliers shovel ladder brush knife".split(),
    "instruments": "piano violin guitar flute drum trumpet harp cello clarinet banjo organ tuba".split(),
    "sports": "football tennis hockey swimming rowing cycling running skiing boxing fencing judo golf rugby basketball".split(),
    "clothes": "shirt coat hat scarf glove sock shoe boot skirt dress jacket belt trousers sweater".split(),
    "trees": "oak birch pine maple willow elm ash cedar beech poplar spruce larch".split(),
    "flowers": "rose tulip daisy lily violet poppy orchid sunflower iris lavender peony daffodil".split(),
    "foods": "bread cheese soup rice pasta pancake salad pie stew omelette porridge pizza sandwich dumpling".split(),
    "drinks": "water milk tea coffee juice lemonade cocoa cider soda smoothie".split(),
    "planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split(),
    "shapes": "circle square triangle rectangle hexagon pentagon oval star cube sphere".split(),
    "rooms": "kitchen bedroom bathroom hall attic cellar library study pantry balcony".split(),
    "vehicles": "car bus train tram boat ship plane bicycle truck tractor ferry scooter".split(),
    "weather words": "sun rain snow wind fog hail storm cloud thunder frost".split(),
    "months": MONTHS,
    "days of the week": DAYS,
    "countries": "Norway Sweden France Spain Italy Germany Poland Greece Egypt Kenya India China Japan Brazil Chile Peru Canada Mexico Cuba Iceland".split(),
    "capital cities": "Oslo London Paris Madrid Rome Berlin Warsaw Athens Cairo Nairobi Beijing Tokyo Lima Ottawa Havana Dublin Lisbon Vienna Prague Moscow".split(),
    "seasons": "spring summer autumn winter".split(),
}

GIRLS = """Anna Mia Lena Nora Clara Ella Ida Lucy Ruby Rosa Vera Maya Zoe Iris Tilda Freya Hanna Olga Petra Sofia Greta Alma Edith
Flora Hazel Ivy June Kira Luna Marta Nina Olive Pia Runa Selma Thea Ursa Wilma Yara Zelda Amina Bella Carmen Dora Esme Fatima""".split()
BOYS = """Tom Ben Max Leo Finn Otto Emil Hugo Oscar Paul Ivan Jack Karl Liam Milo Noah Oliver Peter Quinn Rory Sam Theo Uri Victor
Walter Xavier Yusuf Zack Adam Boris Cyrus David Edgar Felix George Henry Ian Jonas Kofi Lars Mateo Nils Omar Pablo Rafael Stefan""".split()
NAMES = GIRLS + BOYS
SURNAMES = """Berg Lindt Harrow Mason Keller Novak Rossi Silva Tanaka Weber Young Moreno Fischer Dahl Okafor Price Quill Stone Turner
Vance West Archer Brook Carver Dale Ember Frost Garner Hale Irwin""".split()
CITIES = list(CAPITALS.values())[:70]

NOUNS = """lamp table chair window door river mountain valley bridge road garden house tower castle market harbour island forest
meadow field stone key box letter book map clock bell rope boat basket blanket candle mirror bottle cup plate spoon wheel
cart tent flag drum coin ring crown feather shell leaf branch root seed nest cave path gate wall roof floor bench
pencil paper picture song dance game story dream secret promise question answer idea plan gift party dinner breakfast lunch
morning evening night week winter storm cloud rainbow star moon sun planet engine machine computer screen button cable wire
battery phone camera radio train station ticket suitcase passport hotel airport beach desert lake pond waterfall hill
village city street corner shop bakery school teacher student lesson library museum theatre hospital doctor medicine
farmer barn tractor cow horse sheep dog cat mouse bird fish spider bee butterfly snail frog turtle dragon giant wizard
king queen prince princess knight sword shield armour pirate treasure captain sailor anchor wave wind sail""".split()
ADJECTIVES = """small big old new red blue green yellow quiet loud bright dark warm cold soft hard heavy light quick slow happy
sad brave shy clever foolish kind gentle proud humble tiny huge tall short round square flat deep shallow clean dusty
shiny rusty golden silver wooden broken empty full strange common secret famous lonely friendly sleepy hungry thirsty
tired curious patient careful lucky lazy busy honest silly wise young ancient modern fresh sweet sour bitter salty
smooth rough sharp wild calm windy sunny rainy snowy foggy frozen gleaming striped spotted crooked narrow wide""".split()
VERBS = """finds sees carries opens closes paints builds breaks mends sells buys hides keeps loses brings takes watches follows
draws cleans lifts drops throws catches pushes pulls counts holds shows borrows lends chooses forgets remembers
washes cooks eats smells touches hears moves turns covers fills guards visits likes wants needs loves admires""".split()
FUNCTION_WORDS = """the a an of to and or but is was were are be been has had have do did does can could will would should may must not no so very too
just only also still even then than when while where who what which why how this that these those it he she they we you I me him her us them my your his
our their its at by for from into about after before between during until if because as like some any all both each every many much few more most other
another same such own one two three first last next here there now up down out off over again once""".split()
COMMON = """cat sat mat ran day way man woman child people world life hand part place case point company work government number group problem fact
apple water money food music paper head eye face body heart foot voice power law war office party result change reason research air line side kind
friend father mother brother sister family name home room time year thing word language letter page sentence test hello please thanks yes
go come make take see know get give find think tell become leave feel put bring begin keep hold write stand hear let mean set meet run pay sit speak lie
lead read grow lose fall send build understand draw break spend cut rise drive buy wear choose jump jumps quick brown lazy walk talk play look use work call
try ask need help turn start show move live believe happen include continue learn change watch follow stop create open close win offer remember love
consider appear wait serve die expect stay reach kill raise pass sell require report decide pull return explain hope develop carry
great little own other old right big high different small large next early young important few public bad same able best better sure free true whole
real black white second hot cold fine simple easy strong short long possible human local late hard major nice pretty beautiful dark blue engineer
manager lawyer artist scientist student football coffee pizza bicycle internet software server model token memory code data file cloud network""".split()
ADVERBS = "slowly quickly quietly happily sadly often never always gently carefully today again twice outside inside soon".split()
PREPOSITIONS = "in on under behind near beside above below with without around across".split()

ONSETS = "b c d f g h j k l m n p r s t v w z br cl cr dr fl gr pl pr sh sk sl sn st sw th tr ch bl fr gl kn qu sp".split()
VOWELS = "a e i o u a e i o ai ea ee oo ou y".split()
CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "nd", "rn", "st", "ck", "x", "rt", "lk", "sh", "th", "ng", "p", "d", "mp", "ll"]
ENDINGS = ["", "", "", "", "ing", "ed", "er", "ly", "ness", "tion", "s", "ment", "able", "ish", "ia", "ville", "ton", "ism"]

ACCENTS = str.maketrans("aeioucnsz", "áéíøüçñšž")


def invented(rng, syllables=None):
    """A pronounceable word that most likely never occurred before."""
    count = syllables or rng.choice((1, 2, 2, 2, 3, 3))
    word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + (rng.choice(CODAS) if rng.random() < 0.6 else "") for _ in range(count))
    return word + rng.choice(ENDINGS)


def scrambled(rng):
    """Letters in no order at all, so that copying cannot lean on spelling."""
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 8)))


def number(rng, digits=None):
    length = digits or rng.choice((1, 2, 2, 3, 3))
    return rng.randint(0 if length == 1 else 10 ** (length - 1), 10**length - 1)


def word(rng):
    """Any plain word: half from the tables, half invented."""
    draw = rng.random()
    if draw < 0.16:
        return rng.choice(NOUNS)
    if draw < 0.28:
        return rng.choice(COMMON)
    if draw < 0.36:
        return rng.choice(ADJECTIVES)
    if draw < 0.46:
        return rng.choice(VERBS)
    if draw < 0.52:
        return rng.choice(rng.choice(list(CATEGORIES.values()))).lower()
    if draw < 0.56:
        return scrambled(rng)
    if draw < 0.68:
        return rng.choice(ADVERBS + PREPOSITIONS + FUNCTION_WORDS)
    return invented(rng)


def name(rng):
    draw = rng.random()
    if draw < 0.6:
        return rng.choice(NAMES)
    if draw < 0.64:
        return scrambled(rng)[:4].capitalize()
    return invented(rng, rng.choice((1, 2, 2))).capitalize()


def full_name(rng):
    surname = rng.choice(SURNAMES) if rng.random() < 0.5 else invented(rng, 2).capitalize()
    return f"{name(rng)} {surname}"


def city(rng):
    return rng.choice(CITIES) if rng.random() < 0.6 else invented(rng, rng.choice((2, 2, 3))).capitalize()


def sentence(rng):
    """A grammatical sentence without a meaning, with names, numbers and odd words in it."""
    noun = lambda: rng.choice(NOUNS) if rng.random() < 0.7 else invented(rng)
    adjective = lambda: rng.choice(ADJECTIVES) if rng.random() < 0.8 else invented(rng)
    shapes = (
        lambda: f"The {adjective()} {noun()} {rng.choice(VERBS)} a {noun()}.",
        lambda: f"{name(rng)} {rng.choice(VERBS)} the {noun()} {rng.choice(PREPOSITIONS)} the {adjective()} {noun()}.",
        lambda: f"On {rng.choice(DAYS)}, {name(rng)} {rng.choice(ADVERBS)} {rng.choice(VERBS)} {number(rng)} {noun()}s.",
        lambda: f"My {noun()} is {adjective()} and {adjective()}.",
        lambda: f"There are {number(rng)} {noun()}s in {city(rng)}!",
        lambda: f"Why is the {noun()} so {adjective()}?",
        lambda: f"{name(rng)} said: \"The {noun()} is {adjective()}.\"",
        lambda: f"{invented(rng).capitalize()} {invented(rng)} {word(rng)} {invented(rng)}.",
        lambda: f"A {noun()}, a {noun()} and a {noun()} - {adjective()}, {adjective()}; {word(rng)}.",
        lambda: f"In {rng.choice(MONTHS)} {rng.randint(1000, 2999)} it was {adjective()} ({number(rng)} {noun()}s).",
        lambda: f"I {rng.choice(('like', 'want', 'see', 'need', 'know'))} the {adjective()} {noun()}.",
        lambda: f"{adjective().capitalize()} {noun()}s {rng.choice(('jump over', 'run past', 'look at', 'sleep near'))} the {adjective()} {noun()}.",
    )
    return rng.choice(shapes)()


def passage(rng, longest=60):
    """A text worth copying: sentences, bare words, or a mix with digits and signs."""
    target = rng.randint(2, longest) if rng.random() < 0.4 else rng.randint(2, min(longest, 16))
    if rng.random() < 0.6:
        parts, length = [], 0
        while length < target:
            parts.append(sentence(rng))
            length += parts[-1].count(" ") + 1
        return " ".join(parts)
    words = []
    for _ in range(min(target, 30)):
        draw = rng.random()
        token = word(rng)
        if draw < 0.1:
            token = str(rng.randint(0, 99999))
        elif draw < 0.2:
            token = token.capitalize()
        elif draw < 0.24:
            token = token.upper()
        elif draw < 0.27:
            token = f"{token}-{word(rng)}"
        elif draw < 0.3:
            token = f"{token}_{number(rng)}"
        elif draw < 0.33:
            token = token.translate(ACCENTS)
        elif draw < 0.39:
            token += rng.choice((",", ";", ":", ".", "!", "?"))
        words.append(token)
    return " ".join(words)


def article(noun):
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun


def joined(items, last="and"):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" {last} " + items[-1]
