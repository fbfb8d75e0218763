// A picture of a receipt as JSON whose shape is certain: what was bought, and whether the sum is right.
// node examples/receipt.js MODEL receipt.jpg; the model must read images, such as Qwen3-VL-2B-Instruct (docs/vision.md).

import { readFile } from 'node:fs/promises';
import { serve } from 'chairlift';

/** @typedef {{ shop: string, date: string | null, items: { name: string, price: number }[], total: number }} Receipt */

const schema = {
  type: 'object',
  properties: {
    shop: { type: 'string' },
    date: { type: ['string', 'null'], description: 'as YYYY-MM-DD' },
    items: {
      type: 'array',
      maxItems: 100,
      items: {
        type: 'object',
        properties: { name: { type: 'string' }, price: { type: 'number' } },
        required: ['name', 'price'],
        additionalProperties: false,
      },
    },
    total: { type: 'number' },
  },
  required: ['shop', 'date', 'items', 'total'],
  additionalProperties: false,
};

const [model, path] = process.argv.slice(2);
if (model === undefined || path === undefined) {
  console.error('give a model that reads images, and a picture: node examples/receipt.js MODEL receipt.jpg');
  process.exit(2);
}

/** @returns {Promise<Receipt>} */
async function read(url, picture) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: `data:image/jpeg;base64,${picture.toString('base64')}` } },
            { type: 'text', text: 'Read this receipt: shop, date, items with their prices, and the total.' },
          ],
        },
      ],
      response_format: { type: 'json_schema', json_schema: { name: 'receipt', strict: true, schema } },
      temperature: 0,
      max_tokens: 2000,
    }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { choices } = /** @type {any} */ (await response.json());
  const [{ message, finish_reason: reason }] = choices;
  if (reason !== 'stop') throw new Error('the receipt is longer than the answer may be');
  return JSON.parse(message.content);
}

const server = await serve({
  port: 0,
  database: ':memory:',
  logLevel: 'error',
  model: [model],
});
try {
  const { shop, date, items, total } = await read(server.url, await readFile(path));
  console.log(`${shop}, ${date ?? 'without a date'}`);
  console.table(items);
  const sum = items.reduce((all, { price }) => all + price, 0);
  const isRight = Math.abs(sum - total) < 0.005;
  console.log(`${total.toFixed(2)} in total${isRight ? '' : `; the items are ${sum.toFixed(2)} together`}`);
} finally {
  await server.close();
}
