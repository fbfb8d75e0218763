// `npm run bench:speculation [-- MODEL] [--rounds N]`: what guessing is worth to one answer at a time, by what is asked. Two
// engines of the same model, one of which never guesses, answer the same questions in turn; answers must be equal. Tokens a
// second are those behind the first one. Ends in one JSON line.

import { load } from '../dist/index.js';

const arguments_ = process.argv.slice(2);
const roundsAt = arguments_.indexOf('--rounds');
const rounds = roundsAt < 0 ? 3 : Number(arguments_.splice(roundsAt, 2)[1]);
const [path] = arguments_;

const passage =
  'The old lift at the end of the valley has carried people up the mountain for forty years. Anna oils its wheels each ' +
  'spring, counts the seats, and paints the numbers on them again. In winter it never stops. Children like the last seat best, ' +
  'because it swings a little when the wind comes over the ridge, and because nobody sits behind them.';
const people =
  'Meet Nora. Nora is 34 years old. Nora lives in Oslo and works as a baker. Her hobby is chess.';
const user = (content) => [{ role: 'user', content }];
const greedy = { temperature: 0, maxTokens: 300 };
const weather = {
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
const record = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 40 },
    age: { type: 'integer' },
    city: { type: 'string', maxLength: 40 },
    hobby: { type: 'string', maxLength: 40 },
  },
  required: ['name', 'age', 'city', 'hobby'],
  additionalProperties: false,
};
const story = (about) => user(`Tell me a story about ${about}.`);
const storyAnimals = [
  'a fox named Milo in the forest',
  'a bear named Otto by the lake',
  'an owl named Luna in the tower',
];

/** By kind, questions with their options. A prediction of `0.9` is the answer itself with a tenth of its words replaced. */
const kinds = {
  copying: [
    { messages: user(`Copy this text exactly: ${passage}`), options: greedy },
    {
      messages: user(`Repeat this text without any change:\n\n${passage}`),
      options: { ...greedy, temperature: 1, seed: 7 },
    },
  ],
  rewriting: [
    { messages: user(`Write this in lower case: ${passage}`), options: greedy },
    {
      messages: user(`Copy the passage exactly: ${passage.split('. ').reverse().join('. ')}`),
      options: greedy,
    },
  ],
  extraction: [
    {
      messages: user(`Extract name, age, city and hobby as JSON: ${people}`),
      options: { ...greedy, schema: record },
    },
    { messages: user(`Extract name and age as JSON: ${people}`), options: greedy },
  ],
  'tool calls': [
    {
      messages: user('What will the weather be in Lisbon for 3 days?'),
      options: { ...greedy, tools: [weather], toolChoice: 'required' },
    },
    {
      messages: user('Get the weather forecast for Oslo for 5 days.'),
      options: { ...greedy, tools: [weather] },
    },
  ],
  stories: storyAnimals.map((about) => ({ messages: story(about), options: greedy })),
  'predicted, 90 % right': [{ messages: story(storyAnimals[0]), options: greedy, prediction: 0.9 }],
};

async function answer(model, { messages, options }) {
  let begun;
  const answer = model.chat(messages, options);
  const pieces = [];
  for await (const piece of answer) {
    begun ??= performance.now();
    pieces.push(piece);
  }
  const whole = await answer.result();
  const { text, calls, usage } = whole;
  const ms = begun === undefined ? 0 : performance.now() - begun;
  return {
    said: JSON.stringify([text, calls.map(({ name, arguments: given }) => [name, given])]),
    text,
    usage,
    ms,
  };
}

/** Every tenth word becomes another. */
const almost = (text) =>
  text
    .split(' ')
    .map((word, at) => (at % 10 === 5 ? 'something' : word))
    .join(' ');

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

const plain = await load({ ...(path === undefined ? {} : { path }), speculation: 'off' });
const guessing = await load(path === undefined ? {} : { path });
const results = [];
for (const [kind, questions] of Object.entries(kinds)) {
  const speeds = { off: [], on: [] };
  let accepted = 0;
  let rejected = 0;
  for (const question of questions) {
    const first = await answer(plain, question);
    const options =
      question.prediction === undefined
        ? question.options
        : { ...question.options, prediction: almost(first.text) };
    const asked = { ...question, options };
    await answer(guessing, asked);
    for (let round = 0; round < rounds; round++) {
      for (const [name, model] of round % 2 === 0
        ? [
            ['off', plain],
            ['on', guessing],
          ]
        : [
            ['on', guessing],
            ['off', plain],
          ]) {
        const { said, usage, ms } = await answer(model, asked);
        if (said !== first.said) throw new Error(`${kind}: ${said} instead of ${first.said}`);
        speeds[name].push((1000 * (usage.completionTokens - 1)) / ms);
        if (name === 'on') {
          accepted += usage.guesses?.accepted ?? 0;
          rejected += usage.guesses?.rejected ?? 0;
        }
      }
    }
  }
  const [off, on] = [median(speeds.off), median(speeds.on)];
  results.push({ kind, off, on, ratio: on / off, accepted, rejected });
  process.stderr.write(
    `${kind.padEnd(22)} ${off.toFixed(0).padStart(5)} tokens/s, with guesses ${on.toFixed(0).padStart(5)}: ${(on / off).toFixed(2)} times; ` +
      `${accepted} guesses right, ${rejected} wrong\n`,
  );
}
await Promise.all([plain.close(), guessing.close()]);
process.stdout.write(`${JSON.stringify({ benchmark: 'speculation', rounds, results })}\n`);
