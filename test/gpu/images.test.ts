// A server whose GPU runs vision towers: from a request with images to the tokens of transformers, alone and in a batch; and the
// same answers where the engine process or the GPU is lost while a tower computes, or in the midst of an answer.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';
import type { EngineStats } from '../../src/engine/engine.ts';
import { describeOnFastestGpu, gpuEnvironment } from '../support/on-gpu.ts';
import { childrenOf, engineStats, type ServerProcess, serverHome } from '../support/server-process.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';
import { type GoldenCase, goldenCases } from '../vision/golden-case.ts';

const losableGpu = fileURLToPath(new URL('../support/losable-gpu.js', import.meta.url));

/** What differs most: rotary embeddings of three axes and outputs for several layers, images that see themselves, tiles. */
const all = ['qwen3_vl', 'gemma3', 'smolvlm', 'pixtral', 'glm4v', 'llava_onevision', 'qwen2_5_vl', 'lfm2_vl'];
const families = thorough ? all : all.slice(0, 1);
/** So long that one can be struck in its midst. */
const LONG_ANSWER = 40;
/** Text alone among them. */
const names = ['two images', 'tiny', 'text only'];

/** Keys and values are halves: what logits must be apart for their order to be sure. */
const MARGIN = 0.02;

// A processor that plays a GPU may take long to compile a kernel: that is no engine that hangs.
const patience = ['--step-timeout', '10m', '--max-step-tokens', '64', '--speculation', 'off'];

interface Answer {
  readonly token_ids: readonly number[];
  readonly logprobs: { readonly content: readonly { readonly logprob: number }[] };
}

const casesOf = (family: string) => goldenCases(family).filter(({ name }) => names.includes(name));

describeOnFastestGpu('a server on a GPU that sees', () => {
  const home = serverHome();
  let server: ServerProcess;
  let key: string;
  beforeAll(async () => {
    if (!hasTestdata) return;
    key = home.createKey('tester', 'high', '--admin');
    home.environment = { ...gpuEnvironment, NODE_OPTIONS: `--import=${losableGpu}` };
    const models = families.flatMap((family) => ['--model', `${family}=${testdata('vision', family)}`]);
    server = await home.start('--backend', 'webgpu', ...models, ...patience);
  });

  async function ask(model: string, { messages }: GoldenCase, tokens: number): Promise<Answer> {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model,
        messages: messages.map(withFiles),
        temperature: 0,
        ignore_eos: true,
        max_tokens: tokens,
        return_token_ids: true,
        logprobs: true,
      }),
    });
    const { choices, error } = (await response.json()) as { choices?: readonly Answer[]; error?: unknown };
    if (choices?.[0] === undefined) throw new Error(JSON.stringify(error));
    const [{ token_ids, logprobs }] = choices as readonly [Answer];
    return { token_ids, logprobs };
  }

  it.runIf(hasTestdata)('says so', async () => {
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${server.url}/v1/models`, { headers });
    const { data } = (await response.json()) as { data: readonly object[] };
    expect(data).toEqual(
      families.map((id) => expect.objectContaining({ id, modalities: ['text', 'image'] })),
    );
  });

  it.runIf(hasTestdata).each(families)(
    'gives the tokens of transformers, in a batch and alone: %s',
    async (family) => {
      const golden = casesOf(family);
      const asked = (one: GoldenCase) => ask(family, one, one.greedy.length);
      const together = await Promise.all([...golden, ...golden].map(asked));
      for (const [at, one] of golden.entries()) {
        const alone = await asked(one);
        expect([together[at], together[at + golden.length]]).toEqual([alone, alone]);
        const close = one.greedyMargins.findIndex((margin) => margin < MARGIN);
        const sure = close < 0 ? one.greedy.length : close;
        expect(alone.token_ids.slice(0, sure)).toEqual(one.greedy.slice(0, sure));
      }
    },
  );

  const [family = ''] = families;
  let undisturbed: Promise<readonly Answer[]> | undefined;
  const askAll = () => Promise.all(casesOf(family).map((one) => ask(family, one, LONG_ANSWER)));
  const strike = (signal: NodeJS.Signals) => {
    for (const engine of childrenOf(server.pid)) process.kill(engine, signal);
  };
  const isLooking = ({ images }: EngineStats) => (images?.pieces ?? 0) > 0 && images?.busy === true;
  const isAnswering = ({ running, images }: EngineStats) => running.length > 0 && images?.waiting === 0;

  it.runIf(hasTestdata).each([
    ['its GPU is lost while a tower computes', 'SIGUSR2', isLooking],
    // recovery.test.ts has kills of the engine in every run.
    ...(thorough
      ? ([
          ['its engine process is killed in the midst of answers', 'SIGKILL', isAnswering],
          ['its GPU is lost in the midst of answers', 'SIGUSR2', isAnswering],
          ['its engine process is killed while a tower computes', 'SIGKILL', isLooking],
        ] as const)
      : []),
  ] as const)('gives the same answers where %s', async (_, signal, holds) => {
    undisturbed ??= askAll();
    const expected = await undisturbed;
    // What the engine has kept of these images goes with it.
    strike('SIGKILL');
    let isDone = false;
    const answers = askAll().finally(() => {
      isDone = true;
    });
    let isThere = false;
    while (!isThere && !isDone) isThere = holds(await engineStats(server, key));
    expect(isThere).toBe(true);
    strike(signal);
    expect(await answers).toEqual(expected);
  });
});

function withFiles(message: GoldenCase['messages'][number]): object {
  if (!Array.isArray(message.content)) return message;
  const content = (message.content as { type: string; image_url?: { url: string } }[]).map((part) => {
    if (part.image_url === undefined) return part;
    const data = readFileSync(testdata('vision', part.image_url.url)).toString('base64');
    return { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } };
  });
  return { ...message, content };
}
