// An engine process that dies, hangs or cannot be had is replaced, and what it owed is given all the same; a request
// that kills three in a row is given up, alone.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { KeeperOptions } from '../../src/pool/engine-keeper.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { chatIds, embeddedEndIds, embeddedSpec, withEngine } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';
import { randomTokens } from '../support/tiny-model.ts';

const settings = {
  modelPath: embeddedModelPath,
  // Small steps: a long prompt takes a while, so that an engine can be killed before its first token.
  engine: { blockCount: 256, budget: { kind: 'fixed', maxStepTokens: 32 }, endIds: embeddedEndIds },
} as const;

const node = process.execPath;
afterEach(() => {
  process.execPath = node;
});

/** No process can be spawned, as when Node was replaced in place. */
function forbidProcesses(): void {
  process.execPath = '/nowhere/node';
}

async function withSupervised(
  options: KeeperOptions,
  use: (engine: SupervisedEngine, incidents: string[]) => Promise<void>,
): Promise<void> {
  const incidents: string[] = [];
  const engine = new SupervisedEngine(settings, {
    onIncident: (message) => incidents.push(message),
    ...options,
  });
  try {
    expect(await engine.start()).toMatchObject({ ok: true });
    await use(engine, incidents);
  } finally {
    await engine.close();
  }
}

/** So long that an engine is struck before it has ended, on a busy machine, too. */
const long: TestRequest = {
  prompt: chatIds('Tell me a story about a fox'),
  sampling: { ignoreEos: true, maxTokens: 600 },
};

/** What the request gets from an engine that nothing happens to. */
async function undisturbed(request: TestRequest): Promise<number[]> {
  const { tokens } = await withEngine({}, (engine) => collect(engine.submit(engineRequest(request))));
  return tokens;
}

describe('a supervised engine', () => {
  it('gives up a request after three engine deaths in a row, and serves on', async () => {
    await withSupervised({}, async (engine, incidents) => {
      const deadly = engineRequest({
        prompt: randomTokens(3500, embeddedSpec.vocabSize, 1),
        sampling: { maxTokens: 5 },
      });
      const answer = collect(engine.submit(deadly));
      for (let kills = 0; kills < 3; kills++) {
        // The process answers once it has taken the request up.
        await waitUntil(async () => (await engine.stats()).running.length === 1);
        process.kill(engine.pid as number, 'SIGKILL');
        await waitUntil(async () => (await engine.stats().catch(() => undefined)) === undefined);
      }
      const { finish } = await answer;
      expect(finish).toMatchObject({ reason: 'error', error: { code: 'engine-failed' } });
      expect(finish.error?.message).toMatch(/3 engine processes in a row/);
      const hello = await collect(
        engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: { maxTokens: 40 } })),
      );
      expect(hello.finish.reason).toBe('stop');
      expect(engine.restarts).toBe(3);
      expect(incidents.length).toBe(3);
    });
  });

  it('cancels in the process, drains, and leaves no process behind', async () => {
    await withSupervised({}, async (engine) => {
      const pid = engine.pid as number;
      const request = engineRequest({
        prompt: chatIds('Hello'),
        sampling: { ignoreEos: true, maxTokens: 3000 },
      });
      const stream = engine.submit(request);
      await stream.next();
      engine.cancel(request.id);
      expect((await collect(stream)).finish.reason).toBe('cancelled');
      expect((await engine.stats()).blocks.used).toBe(0);
      const last = collect(
        engine.submit(engineRequest({ prompt: chatIds('Who are you?'), sampling: { maxTokens: 60 } })),
      );
      await engine.drain();
      expect((await last).finish.reason).toBe('stop');
      const late = await collect(engine.submit(engineRequest({ prompt: chatIds('Hello') })));
      expect(late.finish.error?.code).toBe('draining');
      await engine.close();
      expect(() => process.kill(pid, 0)).toThrow();
    });
  });

  it('takes thousands of sequences, and lets them go, a part in each turn of the event loop', async () => {
    await withSupervised({}, async (engine) => {
      const prompt = chatIds('Hello');
      const requests = Array.from({ length: 2000 }, () =>
        engineRequest({ prompt, sampling: { ignoreEos: true, maxTokens: 500 } }),
      );
      let ended = 0;
      const answers = requests.map(async (request) => {
        const { finish } = await collect(engine.submit(request));
        ended++;
        return finish.reason;
      });
      // All of them: what no engine has is let go of at once.
      await waitUntil(async () => (await engine.stats()).requests.submitted === requests.length);
      for (const { id } of requests) engine.cancel(id);
      let most = 0;
      for (let before = ended; ended < requests.length; before = ended) {
        await new Promise((resolve) => setImmediate(resolve));
        most = Math.max(most, ended - before);
      }
      expect(new Set(await Promise.all(answers))).toEqual(new Set(['cancelled']));
      // One more report than a turn is for may come before it.
      expect(most).toBeLessThanOrEqual(1024);
      expect((await engine.stats()).blocks.used).toBe(0);
    });
  });

  it('says why a model cannot be served', async () => {
    const engine = new SupervisedEngine({ ...settings, modelPath: '/nowhere/model.gguf' });
    const result = await engine.start();
    expect(result).toMatchObject({ ok: false, failure: 'unservable' });
    expect(result.ok ? '' : result.message).toMatch(/does not exist/);
    await engine.close();
  });

  it('is told how many blocks it may hold, and so is the one that comes after it', async () => {
    await withSupervised({}, async (engine) => {
      const limits: number[] = [];
      engine.monitor.subscribe({ blocks: ({ limit }) => limits.push(limit) });
      engine.allow(100);
      await waitUntil(async () => limits.at(-1) === 100);
      process.kill(engine.pid as number, 'SIGKILL');
      await waitUntil(async () => engine.restarts === 1 && (await engine.stats()).blocks.limit === 100);
    });
  });
});

/** Long enough for a healthy engine to be heard on a busy machine. */
const STEP_TIMEOUT_MS = 5000;

// Side by side: each waits for most of its time.
describe.concurrent('an engine process that hangs', () => {
  it('is replaced, and its requests go on as if nothing had happened', async () => {
    const expected = await undisturbed(long);
    await withSupervised({ stepTimeoutMs: STEP_TIMEOUT_MS }, async (engine, incidents) => {
      const first = engine.pid as number;
      const tokens: number[] = [];
      for await (const event of engine.submit(engineRequest(long))) {
        if (event.kind !== 'token') continue;
        tokens.push(event.token);
        if (tokens.length === 20) process.kill(first, 'SIGSTOP');
      }
      expect(tokens).toEqual(expected);
      expect(engine.restarts).toBe(1);
      expect(incidents).toEqual([expect.stringMatching(/said nothing for 5 s/)]);
      expect(() => process.kill(first, 0)).toThrow();
    });
  });

  it('is left alone while it owes nothing', async () => {
    await withSupervised({ stepTimeoutMs: STEP_TIMEOUT_MS }, async (engine) => {
      process.kill(engine.pid as number, 'SIGSTOP');
      await sleep(1.6 * STEP_TIMEOUT_MS);
      expect(engine.restarts).toBe(0);
      process.kill(engine.pid as number, 'SIGCONT');
    });
  });

  it('is not taken for one that waits for blocks, however long', async () => {
    await withSupervised({ stepTimeoutMs: STEP_TIMEOUT_MS }, async (engine) => {
      engine.allow(0);
      const answer = collect(engine.submit(engineRequest(long)));
      await sleep(1.6 * STEP_TIMEOUT_MS);
      expect(engine.restarts).toBe(0);
      engine.allow(256);
      expect((await answer).tokens).toEqual(await undisturbed(long));
    });
  });

  it('is replaced while it loads, too', async () => {
    const engine = new SupervisedEngine(settings, { stepTimeoutMs: STEP_TIMEOUT_MS });
    const started = engine.start();
    await waitUntil(async () => engine.pid !== undefined);
    process.kill(engine.pid as number, 'SIGSTOP');
    expect(await started).toMatchObject({ ok: true });
    await engine.close();
  });
});

describe('an engine that dies while it loads', () => {
  it('is tried again, then given up with the reason, and is never loaded in the server', async () => {
    const incidents: string[] = [];
    const engine = new SupervisedEngine(settings, { onIncident: (message) => incidents.push(message) });
    const started = engine.start();
    let result: Awaited<typeof started> | undefined;
    started.then((value) => {
      result = value;
    });
    const killed = new Set<number>();
    while (result === undefined) {
      const { pid } = engine;
      if (pid !== undefined && !killed.has(pid)) {
        killed.add(pid);
        process.kill(pid, 'SIGKILL');
      }
      await sleep(5);
    }
    expect(result).toMatchObject({ ok: false, failure: 'died' });
    expect(result.ok ? '' : result.message).toMatch(/was killed by SIGKILL.*3 times in a row/);
    expect(incidents.length).toBe(2);
    expect(killed.size).toBe(3);
    expect(engine.direct).toBe(false);
    await engine.close();
  });
});

describe('where no process can be spawned', () => {
  it('the engine runs in the server, one request at a time, and moves into a process when there is one', async () => {
    const expected = await undisturbed(long);
    forbidProcesses();
    const events: string[] = [];
    await withSupervised(
      { onFallback: (reason) => events.push(reason), onReturn: () => events.push('back') },
      async (engine) => {
        expect(engine.direct).toBe(true);
        expect(engine.pid).toBeUndefined();
        expect(events).toEqual([expect.stringMatching(/ENOENT/)]);
        expect((await collect(engine.submit(engineRequest(long)))).tokens).toEqual(expected);
        expect((await engine.stats()).requests.direct).toBe(1);
        process.execPath = node;
        // Under way when it moves: long enough for that, and the answer is still the same.
        const answers = [];
        while (engine.direct) answers.push(await collect(engine.submit(engineRequest(long))));
        for (const { tokens } of answers) expect(tokens).toEqual(expected);
        await waitUntil(async () => events.length === 2);
        expect(events[1]).toBe('back');
        expect(engine.pid).toBeDefined();
        expect((await collect(engine.submit(engineRequest(long)))).tokens).toEqual(expected);
        expect((await engine.stats()).requests.direct).toBe(0);
      },
    );
  });

  it('a restart does so too, and requests under way go on', async () => {
    const expected = await undisturbed(long);
    await withSupervised({}, async (engine) => {
      const tokens: number[] = [];
      for await (const event of engine.submit(engineRequest(long))) {
        if (event.kind !== 'token') continue;
        tokens.push(event.token);
        if (tokens.length !== 20) continue;
        forbidProcesses();
        process.kill(engine.pid as number, 'SIGKILL');
      }
      expect(tokens).toEqual(expected);
      expect(engine.direct).toBe(true);
    });
  });
});

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  for (;;) {
    if (await holds().catch(() => false)) return;
    await sleep(5);
  }
}
