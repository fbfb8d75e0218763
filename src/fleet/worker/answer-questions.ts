// Answers a gateway's requests to a worker: load, unload, statistics, text files.

import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Answer, Question } from '../messages.ts';
import { describeTextSide, readPart } from '../text-side.ts';
import type { FleetWorker } from './fleet-worker.ts';
import type { PrefixPublisher } from './prefix-publisher.ts';
import type { StoredPublisher } from './stored-publisher.ts';

const done: Answer = { kind: 'done' };

interface WorkerParts {
  readonly pool: ModelPool;
  readonly worker: FleetWorker;
  readonly prefixes: PrefixPublisher;
  readonly stored: StoredPublisher;
}

export async function answerQuestion(question: Question, parts: WorkerParts): Promise<Answer> {
  try {
    return await answer(question, parts);
  } catch (error) {
    return refused(messageOf(error));
  }
}

async function answer(question: Question, { pool, worker, prefixes, stored }: WorkerParts): Promise<Answer> {
  switch (question.kind) {
    case 'load':
    case 'keep': {
      const acquired = await pool.acquire(question.model, { atOnce: true });
      if (!acquired.ok) return refused(acquired.message);
      acquired.lease.release(question.kind === 'keep' ? question.idleMs : undefined);
      return done;
    }
    case 'unload':
      return (await pool.unload(question.model)) ? done : refused(`${question.model} is busy, or not loaded`);
    case 'drain':
      worker.draining = question.on;
      return done;
    case 'answer': {
      const entry = worker.handOver(question);
      if (entry === undefined) return { kind: 'answer' };
      const { attempt, model, tokens, stop, finish } = entry;
      return { kind: 'answer', found: { attempt, model, tokens, stop, finish } };
    }
    case 'stats': {
      const served = pool.loaded().find(({ name }) => name === question.model);
      return served === undefined
        ? refused(`${question.model} is not loaded`)
        : { kind: 'stats', stats: await served.engine.stats() };
    }
    case 'status':
      return refused('no status has been published yet');
    case 'prefixes':
      return { kind: 'prefixes', snapshot: await prefixes.snapshot(question.model) };
    case 'stored':
      return { kind: 'stored', piece: stored.piece(question.model, question.tier, question.before) };
    case 'text-side':
      return { kind: 'text-side', side: describeTextSide(entryOf(pool, question.model)) };
    case 'text-part': {
      const { model, file, offset, bytes } = question;
      const content = readPart(entryOf(pool, model), file, offset, bytes);
      return content === undefined
        ? refused(`${file} is no part of ${model}`)
        : { kind: 'text-part', content };
    }
  }
}

function entryOf(pool: ModelPool, model: string): ModelEntry {
  const entry = pool.list().find(({ name }) => name === model);
  if (entry === undefined) throw new Error(`there is no model named ${model}`);
  return entry;
}

function refused(reason: string): Answer {
  return { kind: 'refused', reason };
}
