// Typed extraction: facts from texts as objects whose shape is certain, whatever the model.
// node examples/extraction.js [model.gguf]; without a model, with the small one that is part of this repository.

import { serve } from 'chairlift';

/** @typedef {{ product: string, quantity: number, price: number, customer: string, express: boolean | null }} Order */

const schema = {
  type: 'object',
  properties: {
    product: { type: 'string' },
    quantity: { type: 'integer', minimum: 1 },
    price: { type: 'number' },
    customer: { type: 'string' },
    express: { type: ['boolean', 'null'] },
  },
  required: ['product', 'quantity', 'price', 'customer', 'express'],
  additionalProperties: false,
};

const texts = [
  'Somebody ordered a lamp. The quantity is 12 and the price is 40 dollars. The customer is Ida Berg.',
  'We sold a chair. 3 pieces were ordered. Each one costs 89.5. It was ordered by Tom Novak.',
  'The parcel contains a kettle. It costs 25 euros and the customer wants 2 of them. The buyer is called Mia Rossi.',
];

/** @returns {Promise<Order>} */
async function extract(url, text) {
  const keys = Object.keys(schema.properties).join(', ');
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages: [{ role: 'user', content: `Extract ${keys} as JSON from this text: ${text}` }],
      response_format: { type: 'json_schema', json_schema: { name: 'order', strict: true, schema } },
      temperature: 0,
    }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { choices } = /** @type {any} */ (await response.json());
  return JSON.parse(choices[0].message.content);
}

const server = await serve({
  port: 0,
  database: ':memory:',
  logLevel: 'error',
  model: process.argv.slice(2),
});
// All at once: the server computes them in one batch.
const orders = await Promise.all(texts.map((text) => extract(server.url, text)));
console.table(orders);
const total = orders.reduce((sum, { quantity, price }) => sum + quantity * price, 0);
console.log(`${orders.length} orders, ${total.toFixed(2)} in total`);
await server.close();
