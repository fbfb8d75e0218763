// A server on a GPU outlives its engine process and its GPU: eight streams that are under way go on, and every answer is
// the one that an undisturbed server gives.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';
import { writeSecondModel } from '../chaos/second-model.ts';
import { describeOnFastestGpu, gpuEnvironment, isSlowGpu } from '../support/on-gpu.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { type Answer, type StreamBody, StreamClient } from '../support/stream-client.ts';

const losableGpu = fileURLToPath(new URL('../support/losable-gpu.js', import.meta.url));

const TOKENS = isSlowGpu ? 24 : 60;

const heroes = ['miller', 'fox', 'queen', 'smith', 'owl', 'king', 'baker', 'bear'];
const bodies: readonly StreamBody[] = heroes.map((hero, n) => ({
  prompt: `The ${hero}`,
  max_tokens: TOKENS,
  ignore_eos: true,
  ...(n % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: n }),
}));

describeOnFastestGpu('a server on a GPU with eight streams', () => {
  const home = serverHome();
  let server: ServerProcess;
  let undisturbed: Answer[];

  beforeAll(async () => {
    home.environment = { ...gpuEnvironment, NODE_OPTIONS: `--import=${losableGpu}` };
    const model = join(home.folder, 'model.gguf');
    writeSecondModel(model, { spellsOut: true, layers: 1 });
    // A processor that plays a GPU may take long to compile a kernel: that is no engine that hangs.
    const patience = ['--step-timeout', '10m', '--max-step-tokens', '32'];
    // All streams keep step, so that each can be struck in its middle.
    const inStep = ['--speculation', 'off'];
    server = await home.start(
      '--backend',
      'webgpu',
      '--model',
      model,
      '--kv-blocks',
      '64',
      ...patience,
      ...inStep,
    );
    undisturbed = await Promise.all(bodies.map((body) => new StreamClient(server.url, body).answer));
  });

  /** The answers of streams that a signal to the engine process strikes in the middle. */
  async function answersAfter(signal: NodeJS.Signals): Promise<Answer[]> {
    const struck = server.enginePid();
    const clients = bodies.map((body) => new StreamClient(server.url, body));
    await waitUntil(() => clients.every(({ pieces }) => pieces >= TOKENS / 8));
    process.kill(struck, signal);
    expect(clients.every(({ pieces }) => pieces < TOKENS)).toBe(true);
    const answers = await Promise.all(clients.map(({ answer }) => answer));
    expect(server.enginePid()).not.toBe(struck);
    return answers;
  }

  it('gives each its own whole answer', () => {
    expect(server.log()).toContain('serving on the GPU');
    expect(undisturbed.map(({ reason, done }) => ({ reason, done }))).toEqual(
      bodies.map(() => ({ reason: 'length', done: true })),
    );
    expect(new Set(undisturbed.map(({ text }) => text)).size).toBe(bodies.length);
  });

  it('loses and doubles no token when its engine process is killed', async () => {
    expect(await answersAfter('SIGKILL')).toEqual(undisturbed);
  });

  it('loses and doubles no token when its GPU is lost', async () => {
    expect(await answersAfter('SIGUSR2')).toEqual(undisturbed);
    expect(server.log()).toContain('the GPU was lost');
  });
});
