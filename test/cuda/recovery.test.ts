// A server with CUDA outlives its engine process and its GPU: streams that are under way go on, and every answer is the one that an
// undisturbed server gives. The GPU is simulated; a real card, where there is one, loses its engine process, too.

import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeSecondModel } from '../chaos/second-model.ts';
import { describeOnCard } from '../support/cuda-card.ts';
import { type ServerHome, type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { type Answer, type StreamBody, StreamClient } from '../support/stream-client.ts';

const losableCard = fileURLToPath(new URL('../support/losable-card.js', import.meta.url));

/** Three streams of a server: one is sampled with a seed, the others are greedy. */
class Streams {
  readonly #bodies: readonly StreamBody[];
  readonly #tokens: number;

  constructor(tokens: number) {
    this.#tokens = tokens;
    this.#bodies = ['miller', 'fox', 'queen'].map((hero, n) => ({
      prompt: `The ${hero}`,
      max_tokens: tokens,
      ignore_eos: true,
      ...(n % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: n }),
    }));
  }

  answers({ url }: ServerProcess): Promise<Answer[]> {
    return Promise.all(this.#bodies.map((body) => new StreamClient(url, body).answer));
  }

  /** The same, where a signal strikes the engine process in the middle. */
  async answersAfter(server: ServerProcess, signal: NodeJS.Signals): Promise<Answer[]> {
    const struck = server.enginePid();
    const clients = this.#bodies.map((body) => new StreamClient(server.url, body));
    await waitUntil(() => clients.every(({ pieces }) => pieces >= this.#tokens / 4));
    process.kill(struck, signal);
    expect(clients.every(({ pieces }) => pieces < this.#tokens)).toBe(true);
    const answers = await Promise.all(clients.map(({ answer }) => answer));
    expect(server.enginePid()).not.toBe(struck);
    return answers;
  }
}

const startWithCuda = (home: ServerHome, ...flags: string[]) =>
  home.start('--backend', 'cuda', '--speculation', 'off', ...flags);

describe('a server with CUDA and three streams', () => {
  simulatedGpu();
  const streams = new Streams(24);
  const home = serverHome();
  let server: ServerProcess;
  let undisturbed: Answer[];

  beforeAll(async () => {
    home.environment = { NODE_OPTIONS: `--import=${losableCard}` };
    const model = join(home.folder, 'model.gguf');
    writeSecondModel(model, { spellsOut: true, layers: 1 });
    server = await startWithCuda(home, '--model', model, '--kv-blocks', '64', '--max-step-tokens', '32');
    undisturbed = await streams.answers(server);
  });

  it('computes on the GPU', () => {
    expect(server.log()).toContain('serving on the GPU a simulated GPU with CUDA');
    expect(undisturbed.map(({ reason }) => reason)).toEqual(['length', 'length', 'length']);
  });

  it('loses and doubles no token when its engine process is killed', async () => {
    expect(await streams.answersAfter(server, 'SIGKILL')).toEqual(undisturbed);
  });

  it('loses and doubles no token when its GPU is lost', async () => {
    expect(await streams.answersAfter(server, 'SIGUSR2')).toEqual(undisturbed);
    expect(server.log()).toContain('the GPU was lost');
  });
});

describeOnCard('a server with a card and three streams', () => {
  const streams = new Streams(1500);
  const home = serverHome();
  const onProcessor = serverHome();
  let server: ServerProcess;

  beforeAll(async () => {
    // Kernels that the driver compiled before.
    const { CUDA_CACHE_PATH = join(homedir(), '.nv', 'ComputeCache') } = process.env;
    home.environment = { CUDA_CACHE_PATH };
    server = await startWithCuda(home);
  });

  it('gives the answers of the processor, also when its engine process is killed', async () => {
    expect(server.log()).toMatch(/serving on the GPU .* with CUDA/);
    const known = await streams.answers(await onProcessor.start('--backend', 'cpu', '--speculation', 'off'));
    expect(await streams.answers(server)).toEqual(known);
    expect(await streams.answersAfter(server, 'SIGKILL')).toEqual(known);
  });
});
