// `npm run bench -- speculation [-- MODEL]`: what speculative decoding is worth to one answer at a time, by what is asked. Two engines of the
// same model, one of which makes no drafts, get the same questions in turn, none of them twice; answers must be equal. Prompts are
// in the cache when the clock starts, and the ratio is the median of the pairs. Ends in one JSON line.

import { load } from '../dist/index.js';

const [path] = process.argv.slice(2);

const passages = [
  'Anna likes the green lamp. In March 2014 it was cold (12 boats). Red foxes jump over the old chair. I see the quiet garden. The small bird is near the wooden door. Peter wants 7 apples and a long rope.',
  'I know the old baker. Tall trees sleep near the river. In June 1999 it was warm (34 lamps). Nora said: "The door is blue." A book, a boat and a bell - heavy, round; stone. Small cats run past the empty house.',
  'The yellow bridge is behind the tower. Otto needs 15 chairs. In May 2021 it was dark (8 cars). Young horses look at the white wall. I want the clean table. The happy child is near the broken window.',
  'Slow boats sleep near the cold island. I like the red bicycle. Mara said: "The soup is hot." In October 1875 it was quiet (90 hats). The tired teacher is behind the large box. Finn sees 3 eggs.',
];
const sentences = (text) => text.split('. ');
/** Each passage from each of its first sentences on. */
const turned = [0, 1, 2].flatMap((first) =>
  passages.map((passage) => {
    const all = sentences(passage.slice(0, -1));
    return `${[...all.slice(first), ...all.slice(0, first)].join('. ')}.`;
  }),
);
const names = 'Nora Peter Mara Otto Luna Finn Anna Jonas Pia Emil Clara Hugo Ida Leo Ruth Max Eva Tom'.split(
  ' ',
);
const cities = [
  'Oslo',
  'Lisbon',
  'Vienna',
  'Paris',
  'Rome',
  'Madrid',
  'Berlin',
  'Prague',
  'Athens',
  'Dublin',
  'Cairo',
];
const jobs = ['baker', 'painter', 'teacher', 'farmer', 'singer', 'pilot', 'doctor'];
const people = [...names, ...names].map((name, n) => ({
  name,
  age: 20 + n,
  city: cities[n % cities.length],
  job: jobs[n % jobs.length],
}));
const animals = ['a fox', 'a bear', 'an owl', 'a cat', 'a mouse', 'a wolf'];
const heroNames = ['Milo', 'Otto', 'Luna', 'Nils', 'Pia', 'Finn'];
const places = [
  'in the forest',
  'by the lake',
  'in the tower',
  'in the village',
  'in the garden',
  'in the mountains',
];
const heroes = [0, 1, 2, 3].flatMap((turn) =>
  animals.map((animal, n) => `${animal} named ${heroNames[(n + turn) % 6]} ${places[(n + 2 * turn) % 6]}`),
);
const forecast = {
  type: 'function',
  function: {
    name: 'get_weather_forecast',
    description: 'Weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 1, maximum: 9 } },
      required: ['city', 'days'],
      additionalProperties: false,
    },
  },
};
const text = { type: 'string', maxLength: 40 };
const record = {
  type: 'object',
  properties: { name: text, age: { type: 'integer' }, city: text, job: text },
  required: ['name', 'age', 'city', 'job'],
  additionalProperties: false,
};

const greedy = { temperature: 0, maxTokens: 300 };
const ask = (content, options = {}) => ({
  messages: [{ role: 'user', content }],
  options: { ...greedy, ...options },
});

/** Questions by kind; a prediction is the answer itself with a tenth of its words replaced. */
const kinds = {
  copying: turned.map((passage, n) =>
    ask(`Copy this text exactly: ${passage}`, n % 2 === 0 ? {} : { temperature: 0.7, seed: n }),
  ),
  rewriting: turned.flatMap((passage) => [
    ask(`Repeat the text between the lines.\n---\n${sentences(passage).reverse().join('. ')}\n---`),
    ask(`Lower case: ${sentences(passage).slice(0, 2).join('. ')}`),
  ]),
  extraction: people.map(({ name, age, city, job }) =>
    ask(
      `Extract name, age, city and job as JSON: Meet ${name}. ${name} is ${age} years old and lives in ${city}. ${name} works as a ${job}.`,
      { schema: record },
    ),
  ),
  'tool calls': people.map(({ city }, n) =>
    ask(`Get the weather forecast for ${city} for ${2 + (n % 7)} days.`, {
      tools: [forecast],
      ...(n % 2 === 0 ? { toolChoice: 'required' } : {}),
    }),
  ),
  stories: heroes.map((hero) => ask(`Tell me a story about ${hero}.`)),
  'predicted, 90 % right': heroes.map((hero) => ({
    ...ask(`Tell me a long story about ${hero}.`),
    predicted: true,
  })),
};

async function answer(model, { messages, options }) {
  await model.chat(messages, { ...options, maxTokens: 1 }).result();
  const started = performance.now();
  const { text: said, calls, usage } = await model.chat(messages, options).result();
  const ms = performance.now() - started;
  return { said, whole: JSON.stringify([said, calls.map((call) => [call.name, call.arguments])]), usage, ms };
}

/** @param {readonly number[]} values */
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

function almost(said) {
  const words = said.split(' ').map((word, at) => (at % 10 === 5 ? 'something' : word));
  return words.join(' ');
}

const plain = await load({ ...(path === undefined ? {} : { path }), speculation: 'off' });
const drafting = await load(path === undefined ? {} : { path });
const results = [];
for (const [kind, questions] of Object.entries(kinds)) {
  const sum = { tokens: 0, off: 0, on: 0, accepted: 0, rejected: 0 };
  const ratios = [];
  for (const [n, question] of questions.entries()) {
    const first = await answer(plain, question);
    const options = question.predicted
      ? { ...question.options, prediction: almost(first.said) }
      : question.options;
    const asked = { ...question, options };
    const both = [];
    // The second one finds the machine as the first left it.
    for (const model of n % 2 === 0 ? [plain, drafting] : [drafting, plain]) {
      both.push({ model, ...(await answer(model, asked)) });
    }
    const [off, on] = [plain, drafting].map((model) => both.find((one) => one.model === model)?.ms ?? 0);
    ratios.push(off / on);
    for (const { model, whole, usage, ms } of both) {
      if (whole !== first.whole) throw new Error(`${kind}: ${whole} instead of ${first.whole}`);
      if (model === plain) sum.off += ms;
      else {
        sum.on += ms;
        sum.tokens += usage.completionTokens;
        sum.accepted += usage.draftTokens?.accepted ?? 0;
        sum.rejected += usage.draftTokens?.rejected ?? 0;
      }
    }
  }
  const { tokens, accepted, rejected } = sum;
  const ratio = median(ratios);
  const [off, on] = [(1000 * tokens) / sum.off, (1000 * tokens) / sum.on];
  results.push({ kind, answers: questions.length, tokens, off, on, ratio, accepted, rejected });
  process.stderr.write(
    `${kind.padEnd(22)} ${off.toFixed(0).padStart(5)} tokens/s, with drafts ${on.toFixed(0).padStart(5)}: ` +
      `${ratio.toFixed(2)} times; ${accepted} draft tokens accepted, ${rejected} rejected\n`,
  );
}
await Promise.all([plain.close(), drafting.close()]);
process.stdout.write(`${JSON.stringify({ benchmark: 'speculation', results })}\n`);
