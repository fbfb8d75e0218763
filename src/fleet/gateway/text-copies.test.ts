import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { Answer, NodeStatus, Question } from '../messages.ts';
import type { FleetModel, Replica } from './model-replicas.ts';
import { TextCopies } from './text-copies.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-texts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const content = Buffer.from('its text side');

/** Workers that call the same bytes by different file names. */
class Workers {
  readonly asked: Question[] = [];
  readonly down = new Set<string>();

  readonly ask = async (node: string, question: Question): Promise<Answer> => {
    this.asked.push(question);
    if (this.down.has(node)) return { kind: 'refused', reason: `${node} is down` };
    if (question.kind === 'text-part') return { kind: 'text-part', content };
    const name = `${node}.gguf`;
    return {
      kind: 'text-side',
      side: { opening: name, files: [{ name, size: content.length, spans: [[0, content.length]] }] },
    };
  };
}

function modelOf(name: string, key: string, ...nodes: string[]): FleetModel {
  const replicas = nodes.map((node) => ({ status: { node } as NodeStatus }) as Replica);
  return { name, key, vision: undefined, replicas };
}

it('opens the same bytes by the file that was fetched, whoever is asked and under whichever name', async () => {
  const workers = new Workers();
  const copies = new TextCopies(folder, workers.ask);
  const { path } = await copies.paths(modelOf('a', 'k1', 'w1'));
  expect(readFileSync(path)).toEqual(content);
  expect((await copies.paths(modelOf('b', 'k1', 'w2'))).path).toBe(path);
});

it('asks nobody for what an earlier process has fetched', async () => {
  const workers = new Workers();
  const { path } = await new TextCopies(folder, workers.ask).paths(modelOf('a', 'k2', 'w1'));
  workers.asked.length = 0;
  expect((await new TextCopies(folder, workers.ask).paths(modelOf('a', 'k2', 'w2'))).path).toBe(path);
  expect(workers.asked).toEqual([]);
});

it('fetches one content once, however many names ask for it at the same time', async () => {
  const workers = new Workers();
  const copies = new TextCopies(folder, workers.ask);
  const paths = await Promise.all(['a', 'b', 'c'].map((name) => copies.paths(modelOf(name, 'k3', 'w1'))));
  expect(new Set(paths.map(({ path }) => path)).size).toBe(1);
  expect(workers.asked.map(({ kind }) => kind)).toEqual(['text-side', 'text-part']);
});

it('asks the next worker where one does not answer, and fetches again what was removed', async () => {
  const workers = new Workers();
  workers.down.add('w1');
  const copies = new TextCopies(folder, workers.ask);
  const { path } = await copies.paths(modelOf('a', 'k4', 'w1', 'w2'));
  rmSync(path);
  expect(existsSync((await copies.paths(modelOf('a', 'k4', 'w2'))).path)).toBe(true);
  await expect(copies.paths(modelOf('a', 'k5', 'w1'))).rejects.toThrow('w1 is down');
});
