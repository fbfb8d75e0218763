// An agent: a model that calls functions of this program until it can answer.
// node examples/agent.js [model.gguf]; without a model, with the small one that is part of this repository.

import { serve } from 'chairlift';

const places = {
  Oslo: { zone: 'Europe/Oslo', sky: 'rainy', degrees: 7 },
  Lima: { zone: 'America/Lima', sky: 'cloudy', degrees: 18 },
  Tokyo: { zone: 'Asia/Tokyo', sky: 'sunny', degrees: 24 },
};

const inCity = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const tools = {
  get_weather: {
    description: 'Get the current weather in a city',
    parameters: inCity,
    run: ({ city }) => ({ condition: place(city).sky, temperature: place(city).degrees }),
  },
  get_time: {
    description: 'Get the current time in a city',
    parameters: inCity,
    run: ({ city }) => ({ time: clock(place(city).zone) }),
  },
  add: {
    description: 'Add two numbers',
    parameters: {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'integer' } },
      required: ['a', 'b'],
    },
    run: ({ a, b }) => ({ result: a + b }),
  },
};

function place(city) {
  const found = places[city];
  if (found === undefined) throw new Error(`unknown city ${city}`);
  return found;
}

function clock(timeZone) {
  return new Date().toLocaleTimeString('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
}

const offered = Object.entries(tools).map(([name, { description, parameters }]) => ({
  type: 'function',
  function: { name, description, parameters },
}));

async function chat(url, messages) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages, tools: offered, temperature: 0 }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { choices } = /** @type {any} */ (await response.json());
  return choices[0].message;
}

/** Arguments are valid JSON for the function's schema: the server lets the model write nothing else. */
function run({ id, function: { name, arguments: given } }) {
  let result;
  try {
    result = tools[name].run(JSON.parse(given));
  } catch (error) {
    result = { error: /** @type {Error} */ (error).message };
  }
  // The embedded model learned to read JSON with a space after colons and commas.
  const content = JSON.stringify(result).replaceAll('":', '": ').replaceAll(',"', ', "');
  console.log(`  ${name}(${given}) → ${content}`);
  return { role: 'tool', tool_call_id: id, content };
}

async function answer(url, question, maxRounds = 5) {
  const messages = [{ role: 'user', content: question }];
  for (let round = 0; round < maxRounds; round++) {
    const message = await chat(url, messages);
    if (!message.tool_calls) return message.content;
    messages.push(message, ...message.tool_calls.map(run));
  }
  return 'There was no answer in time.';
}

const server = await serve({
  port: 0,
  database: ':memory:',
  logLevel: 'error',
  model: process.argv.slice(2),
});
for (const question of [
  'What is the weather in Oslo?',
  'What time is it in Tokyo? Also what is the weather in Lima?',
  'Use the tool to add 347 and 586.',
  'What is the weather in Bergen?',
  'What is the capital of Norway?',
]) {
  console.log(question);
  console.log(`  ${await answer(server.url, question)}\n`);
}
await server.close();
