// Workers that share a folder of KV blocks, over a real NATS server: what one has computed another loads, and the gateway knows it.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KEY_FILE, readStoreKey } from '../../src/block-store/key-file.ts';
import { nodeFiles } from '../../src/block-store/node-files.ts';
import { Sealing } from '../../src/block-store/sealing.ts';
import { surveyStore } from '../../src/block-store/survey.ts';
import type { NodeStatus, ToWorker } from '../../src/fleet/messages.ts';
import { type FleetCompletion, fleetCompletion } from '../support/fleet-completion.ts';
import { hasAddon } from '../support/native.ts';
import { natsRefusal } from '../support/nats-server.ts';
import { type ServerProcess, waitUntil } from '../support/server-process.ts';
import { SmallFleet } from '../support/small-fleet.ts';

const refusal = natsRefusal() ?? (hasAddon ? undefined : 'the addon is not built');
const because = refusal === undefined ? '' : ` (${refusal})`;
const story = 'The bell of the village rang once more over the quiet hills, and nobody knew why. ';

type Submission = Extract<ToWorker, { kind: 'submit' }>;

/** Blocks of a prompt that can be found again, at least. */
const BLOCKS = 8;

describe.skipIf(refusal !== undefined)(`workers that share a folder${because}`, () => {
  const root = mkdtempSync(join(tmpdir(), 'chairlift-shared-'));
  /** By worker, what it was given. */
  const given = new Map<string, Submission[]>(['a', 'b', 'c'].map((name) => [name, []]));
  let fleet: SmallFleet;
  let first: ServerProcess;
  let gateway: ServerProcess;

  const startWorker = (name: string, folder: string) =>
    fleet.worker(name, {}, '--cache-disk', join(root, folder));

  beforeAll(async () => {
    fleet = await SmallFleet.start();
    for (const [name, submissions] of given) {
      fleet.listen(`chairlift.main.work.${name}`, (message) => {
        const work = message as ToWorker;
        if (work.kind === 'submit') submissions.push(work);
      });
    }
    first = await startWorker('a', 'shared');
    gateway = await fleet.gateway('g');
    await fleet.knows(gateway, 'a');
  });

  afterAll(async () => {
    await fleet?.stop();
    rmSync(root, { recursive: true, force: true });
  });

  const ask = (prompt: string) => fleetCompletion(gateway.url, prompt);

  const textOf = ({ choices }: FleetCompletion) => choices[0]?.text ?? '';
  const cachedIn = ({ usage }: FleetCompletion) => usage.prompt_tokens_details.cached_tokens;
  const last = (name: string) => given.get(name)?.at(-1);

  async function expectedFromDisk(): Promise<number> {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return Number(/^chairlift_fleet_expected_prefix_tokens_total\{tier="disk"\} (\S+)$/m.exec(text)?.[1]);
  }

  /** What a worker says that it reads. */
  async function folderOf(worker: string): Promise<string | undefined> {
    const { nodes } = (await (await fetch(`${gateway.url}/admin/fleet`)).json()) as { nodes: NodeStatus[] };
    return nodes.find(({ node }) => node === worker)?.models[0]?.load?.tiers?.disk?.folder;
  }

  /** Blocks in the shared folder, whoever wrote them. */
  function blocksInFolder(): number {
    const sealing = new Sealing(readStoreKey(nodeFiles, join(root, 'shared', KEY_FILE)) as Uint8Array);
    return surveyStore(nodeFiles, join(root, 'shared'), sealing).reduce((sum, { blocks }) => sum + blocks, 0);
  }

  /** Asks for a text, which is given to `worker` and comes up from the folder there. */
  async function loadedBy(worker: string, prompt: string): Promise<FleetCompletion> {
    const before = await expectedFromDisk();
    const others = [...given].filter(([name]) => name !== worker).map(([, { length }]) => length);
    const answer = await ask(prompt);
    expect([...given].filter(([name]) => name !== worker).map(([, { length }]) => length)).toEqual(others);
    const { expected } = last(worker) as Submission;
    expect(expected).toMatchObject({ memory: 0, host: 0 });
    expect(expected?.disk).toBeGreaterThanOrEqual(32 * BLOCKS);
    // It has never computed that prompt, and nothing of it is in its memory.
    expect(cachedIn(answer)).toBe(expected?.disk);
    expect((await expectedFromDisk()) - before).toBe(expected?.disk);
    return answer;
  }

  it('load what one of them computed: while that one is busy, and when it is gone', {
    timeout: 180_000,
  }, async () => {
    const prompts = ['Once', 'Twice'].map((begin) => `${begin} it was so. ${story.repeat(14)}`);
    const [once = '', twice = ''] = prompts;
    const answers: FleetCompletion[] = [];
    for (const prompt of prompts) answers.push(await ask(prompt));
    await waitUntil(() => blocksInFolder() >= 2 * BLOCKS);
    const busy = await Promise.all(
      Array.from({ length: 32 }, (_, i) =>
        fleet.open(gateway.url, `busy-${i}`, {
          messages: [{ role: 'user', content: `Tell me story number ${i}.` }],
          max_tokens: 1500,
          ignore_eos: true,
        }),
      ),
    );
    expect(busy.map(({ status }) => status)).toEqual(busy.map(() => 200));
    await Promise.all([startWorker('b', 'shared'), startWorker('c', 'own')]);
    await fleet.knows(gateway, 'a', 'b', 'c');
    await waitUntil(
      async () => (await folderOf('b')) !== undefined && (await folderOf('b')) === (await folderOf('a')),
    );
    expect(await folderOf('c')).not.toBe(await folderOf('a'));
    // Then the gateway has asked what is in the folder.
    await new Promise((resolve) => setTimeout(resolve, 2000));

    expect(textOf(await loadedBy('b', once))).toBe(textOf(answers[0] as FleetCompletion));

    await Promise.all(busy.map((response) => response.body?.cancel()));
    first.signal('SIGKILL');
    await first.exited;
    await waitUntil(async () => {
      const view = (await (await fetch(`${gateway.url}/admin/fleet`)).json()) as { nodes: NodeStatus[] };
      return view.nodes.every(({ node }) => node !== 'a');
    });
    const again = await loadedBy('b', twice);
    expect(textOf(again)).toBe(textOf(answers[1] as FleetCompletion));
    const longer = await ask(`${twice}${textOf(again)} And so it went on.`);
    expect(cachedIn(longer)).toBeGreaterThanOrEqual(cachedIn(again));
    expect(last('b')?.expected?.memory).toBeGreaterThanOrEqual(32 * BLOCKS);
  });
});
