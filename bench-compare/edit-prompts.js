// Requests whose answers mostly repeat what was given: where drafts from the prompt should pay.

/**
 * @typedef {object} EditPrompt
 * @property {string} kind
 * @property {string} name
 * @property {string} message what a user writes
 */

const harbour = `The harbour office opens at seven in the morning and closes at six in the evening. Boats longer than twelve
metres moor at the eastern pier, where the water is five metres deep at low tide. Smaller boats find a place along the
southern wall. Whoever stays longer then three nights pays the weekly rate, which is due on the day of arrival. Fresh water
and electricity are included, and the showers behind the sail loft are open day and night. In winter the ferry runs twice a
day; in summer it runs every hour.`;

const workshop = `Our workshop repairs clocks of every age. A clock that comes to us is first cleaned, then taken apart on a
white cloth, and every part is measured and drawn. Worn bearings are closed and drilled anew; broken teeth are cut from
brass and soldered in. When everything runs, the clock stays on the wall for three weeks and is compared with a reference
every morning. Only then does the owner recieve a letter. We give two years of warranty on the movement and one year on the
case.`;

const basket = `function total(items) {
  let sum = 0;
  for (const item of items) {
    if (item.quantity <= 0) continue;
    sum += item.price * item.quantity;
  }
  if (sum > 100) {
    sum -= sum * 0.05;
  }
  return sum;
}

function describe(items) {
  const sum = total(items);
  const names = items.map((item) => item.name);
  return names.join(', ') + ': ' + sum.toFixed(2);
}`;

const cache = `class Cache:
    def __init__(self, size):
        self.size = size
        self.data = {}
        self.order = []

    def get(self, key):
        if key not in self.data:
            return None
        self.order.remove(key)
        self.order.append(key)
        return self.data[key]

    def put(self, key, value):
        if key in self.data:
            self.order.remove(key)
        elif len(self.data) >= self.size:
            oldest = self.order.pop(0)
            del self.data[oldest]
        self.data[key] = value
        self.order.append(key)`;

const invoice = `Invoice number 2024-0817, issued on 3 March 2024 by Lindqvist Timber AB, Storgatan 14, 903 26 Umeå, to Brennan
Boatworks Ltd, 7 Quay Street, Galway. Delivered were 40 planks of Siberian larch, 4200 by 145 by 28 millimetres, at 38.50
euros each, and 12 kilograms of bronze screws at 21.00 euros per kilogram. The total of 1792.00 euros is payable within 30
days to the account SE35 5000 0000 0549 1000 0003. Contact: Maja Lindqvist, maja@lindqvist-timber.example, +46 90 555 0134.`;

const visitors = `On Monday Dr. Ada Okafor from the University of Lagos arrives at 09:40 with flight LH 569 and stays at the Hotel
Adler until Thursday. On Tuesday Mr. Tomasz Wieczorek from Gdansk Shipyard arrives at 13:15 by train EC 54 and stays at the
Pension Rosengarten until Friday. On Wednesday Ms. Keiko Yamashita from Hokkaido Instruments arrives at 18:05 with flight
NH 203 and stays at the Hotel Adler until Saturday.`;

const bees = `Honey bees tell each other where flowers are by dancing. A bee that returns from a rich meadow runs in a straight line
over the comb, shaking her body, then circles back and runs the line again. The angle between the line and the vertical is
the angle between the sun and the meadow. The longer she shakes, the farther away the meadow is: one second stands for about
one kilometre. Other bees follow her in the dark, touching her with their antennae. After a few rounds they fly out and search
by smell for the last few metres.`;

const glacier = `A glacier is a river of ice. Snow that falls on its upper part is pressed into ice within some decades, and the ice flows
downhill under its own weight, a few centimetres to several metres a day. Where it bends over a step of rock, crevasses open
that may be forty metres deep. At its end, the tongue, the ice melts as fast as it arrives. When summers are warm, it melts
faster, and the tongue draws back; stones that the ice carried stay behind as a wall, the moraine.`;

/** @type {readonly EditPrompt[]} */
export const editPrompts = [
  {
    kind: 'correct',
    name: 'harbour',
    message: `Correct the spelling mistake in this text and write the whole text again, with nothing else changed:\n\n${harbour}`,
  },
  {
    kind: 'correct',
    name: 'workshop',
    message: `Copy the following paragraph word by word, but correct the one misspelled word:\n\n${workshop}`,
  },
  {
    kind: 'rename',
    name: 'basket',
    message: `Rename the variable "sum" to "amount" everywhere in this code. Answer with the whole code:\n\n\`\`\`js\n${basket}\n\`\`\``,
  },
  {
    kind: 'rename',
    name: 'cache',
    message: `Rename the attribute "data" to "entries" everywhere in this class. Answer with the whole class:\n\n\`\`\`python\n${cache}\n\`\`\``,
  },
  {
    kind: 'extract',
    name: 'invoice',
    message: `Give the fields "number", "date", "seller", "seller_address", "buyer", "buyer_address", "items", "total", "account", "contact" and "email" of this invoice as JSON:\n\n${invoice}`,
  },
  {
    kind: 'extract',
    name: 'visitors',
    message: `List the visitors in this text as a JSON array of objects with "day", "name", "from", "arrival", "transport", "hotel" and "until":\n\n${visitors}`,
  },
  {
    kind: 'quote',
    name: 'bees',
    message: `${bees}\n\nHow do bees tell each other how far away a meadow is, and in which direction? Quote the sentences of the text that answer this.`,
  },
  {
    kind: 'quote',
    name: 'glacier',
    message: `${glacier}\n\nWhy does the tongue of a glacier draw back, and what stays behind? Answer with quotes from the text.`,
  },
];
