// A server with CUDA outlives its engine process and its GPU, which is simulated: streams that are under way go on, and every
// answer is the one that an undisturbed server gives.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeSecondModel } from '../chaos/second-model.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { type Answer, type StreamBody, StreamClient } from '../support/stream-client.ts';

const losableCard = fileURLToPath(new URL('../support/losable-card.js', import.meta.url));

const TOKENS = 24;

const bodies: readonly StreamBody[] = ['miller', 'fox', 'queen'].map((hero, n) => ({
  prompt: `The ${hero}`,
  max_tokens: TOKENS,
  ignore_eos: true,
  ...(n % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: n }),
}));

describe('a server with CUDA and three streams', () => {
  simulatedGpu();
  const home = serverHome();
  let server: ServerProcess;
  let undisturbed: Answer[];

  beforeAll(async () => {
    home.environment = { NODE_OPTIONS: `--import=${losableCard}` };
    const model = join(home.folder, 'model.gguf');
    writeSecondModel(model, { spellsOut: true, layers: 1 });
    const small = ['--kv-blocks', '64', '--max-step-tokens', '32', '--speculation', 'off'];
    server = await home.start('--backend', 'cuda', '--model', model, ...small);
    undisturbed = await Promise.all(bodies.map((body) => new StreamClient(server.url, body).answer));
  });

  /** The answers of streams that a signal to the engine process strikes in the middle. */
  async function answersAfter(signal: NodeJS.Signals): Promise<Answer[]> {
    const struck = server.enginePid();
    const clients = bodies.map((body) => new StreamClient(server.url, body));
    await waitUntil(() => clients.every(({ pieces }) => pieces >= TOKENS / 4));
    process.kill(struck, signal);
    expect(clients.every(({ pieces }) => pieces < TOKENS)).toBe(true);
    const answers = await Promise.all(clients.map(({ answer }) => answer));
    expect(server.enginePid()).not.toBe(struck);
    return answers;
  }

  it('computes on the GPU', () => {
    expect(server.log()).toContain('serving on the GPU a simulated GPU with CUDA');
    expect(undisturbed.map(({ reason }) => reason)).toEqual(bodies.map(() => 'length'));
  });

  it('loses and doubles no token when its engine process is killed', async () => {
    expect(await answersAfter('SIGKILL')).toEqual(undisturbed);
  });

  it('loses and doubles no token when its GPU is lost', async () => {
    expect(await answersAfter('SIGUSR2')).toEqual(undisturbed);
    expect(server.log()).toContain('the GPU was lost');
  });
});
