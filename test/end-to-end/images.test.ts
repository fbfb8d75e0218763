// Images from a request to its answer, on the real program: needs an engine that hands them to its backend.

import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

interface GoldenCase {
  readonly name: string;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
  readonly greedy: readonly number[];
  /** How far each is ahead of the next best. */
  readonly greedyMargins: readonly number[];
}

/** The processor keeps KV in 16 bits: what is closer is no difference. */
const CLOSE = 0.02;

describe.skipIf(!hasTestdata).each(['cpu', 'reference'])('images on the %s backend', (backend) => {
  const home = serverHome();
  let server: ServerProcess;
  beforeAll(async () => {
    server = await home.start('--backend', backend, '--model', `eyes=${testdata('vision', 'qwen3_vl')}`);
  });

  const { cases } = hasTestdata
    ? (JSON.parse(readFileSync(testdata('vision', 'qwen3_vl', 'golden-vision.json'), 'utf8')) as {
        cases: readonly GoldenCase[];
      })
    : { cases: [] };

  it.each(cases.map((one) => [one.name, one] as const))(
    'answers as transformers does: %s',
    async (_, given) => {
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          messages: given.messages.map(withFiles),
          temperature: 0,
          ignore_eos: true,
          max_tokens: given.greedy.length,
          return_token_ids: true,
        }),
      });
      const body = (await response.json()) as { choices: { token_ids: number[] }[] };
      expect(response.status, JSON.stringify(body)).toBe(200);
      const close = given.greedyMargins.findIndex((margin) => margin < CLOSE);
      const sure = close < 0 ? given.greedy.length : close;
      expect(body.choices[0]?.token_ids.slice(0, sure)).toEqual(given.greedy.slice(0, sure));
    },
  );

  it('answers otherwise where the picture is another one', async () => {
    const ask = async (name: string) => {
      const content = [imageOf(`images/${name}`), { type: 'text', text: 'What is this?' }];
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          messages: [{ role: 'user', content }],
          temperature: 0,
          max_tokens: 1,
          logprobs: true,
          top_logprobs: 1,
        }),
      });
      const { choices } = (await response.json()) as { choices: { logprobs: { content: unknown } }[] };
      return JSON.stringify(choices[0]?.logprobs.content);
    };
    expect(await ask('gray-333x187.png')).not.toBe(await ask('exif6-333x187.jpg'));
  });
});

function imageOf(path: string): object {
  const url = `data:image/png;base64,${readFileSync(testdata('vision', path)).toString('base64')}`;
  return { type: 'image_url', image_url: { url } };
}

function withFiles(message: GoldenCase['messages'][number]): object {
  if (!Array.isArray(message.content)) return message;
  const content = (message.content as { type: string; image_url?: { url: string } }[]).map((part) =>
    part.image_url === undefined ? part : imageOf(part.image_url.url),
  );
  return { ...message, content };
}
