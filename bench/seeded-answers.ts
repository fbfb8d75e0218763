// Sampled answers to requests with seeds, through an engine: each request alone, among others, in chunks, after prefix hits and
// after preemption. An answer is its tokens with their log-probabilities, so that equal answers come from equal logits.

import { type Backend, BLOCK_TOKENS } from '#src/compute/backend.ts';
import { LocalEngine } from '#src/engine/local-engine.ts';
import type { EngineRequest } from '#src/engine/request.ts';
import type { ModelSpec } from '#src/model/spec.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { giveUp } from './harness.ts';

const STREAMS = 64;
const ANSWER_TOKENS = 40;
const SHORTEST_PROMPT = 40;
const PROMPT_SPREAD = 160;
const STEP_TOKENS = 2048;
/** For the cache of all prompts and answers. */
export const SEEDED_BLOCKS =
  STREAMS * Math.ceil((SHORTEST_PROMPT + PROMPT_SPREAD + ANSWER_TOKENS) / BLOCK_TOKENS);

/** Streams that take a request's blocks: they begin with two each, and need a third before its answer has ended. */
const RIVALS = 8;
const RIVAL_TOKENS = 60;

export interface SeededAnswers {
  readonly way: string;
  /** One for each seed. */
  readonly answers: readonly string[];
  /** What shows that it was this way. */
  readonly shown: string;
}

interface Answer {
  readonly text: string;
  readonly cachedTokens: number;
}

/** Every request among the others alone: what a second backend is compared with. */
export async function answersTogether(
  backend: Backend,
  spec: ModelSpec,
  seeds: number,
): Promise<SeededAnswers> {
  const answers = await withEngine(backend, spec, {}, (engine) =>
    Promise.all(streamsOf(spec, seeds).map((request) => answerOf(engine, request))),
  );
  return { way: `among ${STREAMS - 1} others`, answers: texts(answers, seeds), shown: `${STREAMS} streams` };
}

/** In all ways. */
export async function seededAnswers(
  backend: Backend,
  spec: ModelSpec,
  seeds: number,
): Promise<SeededAnswers[]> {
  const requests = () => Array.from({ length: seeds }, (_, seed) => requestOf(spec, seed));
  const [alone, cached] = await withEngine(backend, spec, {}, async (engine) => [
    await inTurn(engine, requests()),
    await inTurn(engine, requests()),
  ]);
  const cachedTokens = (answers: readonly Answer[]) =>
    answers.reduce((sum, answer) => sum + answer.cachedTokens, 0);
  const chunked: Answer[] = [];
  for (const [seed, request] of requests().entries()) {
    const stepTokens = 1 + ((seed * 7) % 90);
    chunked.push(await withEngine(backend, spec, { stepTokens }, (engine) => answerOf(engine, request)));
  }
  const preempted: Answer[] = [];
  let preemptions = 0;
  for (const request of requests()) {
    const blockCount = Math.ceil(request.prompt.length / BLOCK_TOKENS) + 2 * RIVALS + 1;
    await withEngine(backend, spec, { blockCount }, async (engine) => {
      const rivals: Promise<Answer>[] = [];
      // Of the lowest priority, it is the first to be preempted.
      const first = { ...request, priority: 2 as const };
      const answer = await answerOf(engine, first, () => {
        for (let n = 0; n < RIVALS; n++) rivals.push(answerOf(engine, rivalOf(spec, n)));
      });
      preempted.push(answer);
      await Promise.all(rivals);
      if ((await engine.stats()).counters.preemptions > 0) preemptions++;
    });
  }
  return [
    { way: 'alone', answers: texts(alone, seeds), shown: `${cachedTokens(alone)} tokens cached` },
    await answersTogether(backend, spec, seeds),
    { way: 'in chunks', answers: texts(chunked, seeds), shown: 'of 1 to 90 tokens' },
    {
      way: 'after prefix hits',
      answers: texts(cached, seeds),
      shown: `${cachedTokens(cached)} tokens cached`,
    },
    {
      way: 'after preemption',
      answers: texts(preempted, seeds),
      shown: `in ${preemptions} of ${seeds} runs`,
    },
  ];
}

function texts(answers: readonly Answer[], seeds: number): string[] {
  return answers.slice(0, seeds).map(({ text }) => text);
}

/** As many streams as run together; those beyond the seeds are company. */
function streamsOf(spec: ModelSpec, seeds: number): EngineRequest[] {
  return Array.from({ length: Math.max(STREAMS, seeds) }, (_, seed) => requestOf(spec, seed));
}

async function inTurn(engine: LocalEngine, requests: readonly EngineRequest[]): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const request of requests) answers.push(await answerOf(engine, request));
  return answers;
}

function requestOf(spec: ModelSpec, seed: number): EngineRequest {
  return seededRequest(spec, seed, SHORTEST_PROMPT + ((seed * 37) % PROMPT_SPREAD), ANSWER_TOKENS);
}

function rivalOf(spec: ModelSpec, number: number): EngineRequest {
  return seededRequest(spec, 1000 + number, SHORTEST_PROMPT, RIVAL_TOKENS);
}

/** Every third with log-probabilities, every other with penalties; prompts differ from their first token on. */
function seededRequest(
  { vocabSize }: ModelSpec,
  seed: number,
  length: number,
  maxTokens: number,
): EngineRequest {
  const prompt = Int32Array.from(
    { length },
    (_, at) => ((seed + 1) * 7919 + at * (31 + seed)) % (vocabSize - 2),
  );
  const sampling = validateSampling(
    {
      seed,
      temperature: 0.6 + (seed % 5) / 10,
      topP: seed % 4 === 0 ? 1 : 0.95,
      ...(seed % 2 === 0 ? {} : { repetitionPenalty: 1.1, presencePenalty: 0.5 }),
      ...(seed % 3 === 0 ? { logprobs: 5 } : {}),
      maxTokens,
      ignoreEos: true,
    },
    { vocabSize, freshSeed: { low: 1, high: 2 } },
  );
  if (!sampling.ok) giveUp(`${sampling.parameter} ${sampling.problem}`);
  return {
    id: crypto.randomUUID(),
    prompt,
    choice: 0,
    answer: [],
    parameters: sampling.parameters,
    priority: 1,
    salt: '',
    adapter: undefined,
    account: '',
    enqueuedMs: Date.now(),
  };
}

async function answerOf(
  engine: LocalEngine,
  request: EngineRequest,
  onStart: () => void = () => {},
): Promise<Answer> {
  const parts: string[] = [];
  let cachedTokens = 0;
  for await (const event of engine.submit(request)) {
    if (event.kind === 'token') {
      if (parts.length === 0) onStart();
      parts.push(JSON.stringify([event.token, event.logprobs ?? null]));
    } else if (event.reason === 'length') cachedTokens = event.cachedTokens;
    else giveUp(`a request ended with ${JSON.stringify(event)}`);
  }
  return { text: parts.join(), cachedTokens };
}

interface EngineLimits {
  readonly blockCount?: number;
  readonly stepTokens?: number;
}

/** With nothing cached before, nor after; the backend stays open. */
async function withEngine<Result>(
  backend: Backend,
  { vocabSize, contextLength }: ModelSpec,
  { blockCount = SEEDED_BLOCKS, stepTokens = STEP_TOKENS }: EngineLimits,
  use: (engine: LocalEngine) => Promise<Result>,
): Promise<Result> {
  const lent: Backend = {
    name: backend.name,
    blockCount: backend.blockCount,
    stateSlots: backend.stateSlots,
    ...(backend.blockMemory === undefined ? {} : { blockMemory: backend.blockMemory }),
    sampleRows: backend.sampleRows,
    step: (batch, rows) => backend.step(batch, rows),
    releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
    close: () => {},
  };
  const engine = new LocalEngine(lent, {
    blockCount,
    budget: { kind: 'fixed', maxStepTokens: stepTokens },
    maxBatchSize: STREAMS,
    vocabSize,
    contextLength,
    endIds: [],
  });
  try {
    return await use(engine);
  } finally {
    await engine.close();
    backend.releaseBlocks(Int32Array.from({ length: backend.blockCount }, (_, block) => block));
  }
}
