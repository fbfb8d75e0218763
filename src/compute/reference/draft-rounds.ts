// Drafts of the MTP head: rounds of one token for each sequence, each of which goes on from the tokens of the one before it.

import type { SampleRow } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import type { Batch, DraftedToken } from '../backend.ts';

interface Wanted {
  readonly rows: readonly (readonly SampleRow[])[];
  readonly leastLogprob: number;
  readonly vocabSize: number;
}

/** See `Backend.draft`; `predict` gives the logits of a round. */
export async function draftRounds(
  batch: Batch,
  { rows, leastLogprob, vocabSize }: Wanted,
  predict: (batch: Batch) => Promise<Float32Array>,
): Promise<readonly (readonly DraftedToken[])[]> {
  const drafts: DraftedToken[][] = rows.map(() => []);
  let going = [...rows.keys()];
  for (let round = 0; going.length > 0; round++) {
    const logits = await predict(roundOf(batch, going, drafts));
    const sampled = sampleRows(
      logits,
      vocabSize,
      going.map((sequence) => withLogprob(rows[sequence]?.[round] as SampleRow)),
    );
    going = going.filter((sequence, at) => {
      const [draft, result] = [drafts[sequence] as DraftedToken[], sampled[at]];
      if (result?.ok !== true) return false;
      draft.push({ token: result.token, logprob: result.logprobs?.logprob as number });
      const total = draft.reduce((sum, { logprob }) => sum + logprob, 0);
      return draft.length < (rows[sequence]?.length as number) && total >= leastLogprob;
    });
  }
  return drafts;
}

function withLogprob(row: SampleRow): SampleRow {
  return { ...row, parameters: { ...row.parameters, logprobs: 0 } };
}

/** The batch of some of its sequences, one token after what has been drafted for each. */
function roundOf(
  batch: Batch,
  going: readonly number[],
  drafts: readonly (readonly DraftedToken[])[],
): Batch {
  const depth = (sequence: number) => drafts[sequence]?.length as number;
  const tables = going.map((sequence) =>
    batch.blocks.subarray(batch.blockStarts[sequence], batch.blockStarts[sequence + 1]),
  );
  const { adapters, rotaryPositions } = batch;
  return {
    ...batch,
    tokens: Int32Array.from(
      going,
      (sequence) => drafts[sequence]?.at(-1)?.token ?? (batch.tokens[sequence] as number),
    ),
    rowStarts: Int32Array.from({ length: going.length + 1 }, (_, row) => row),
    starts: Int32Array.from(going, (sequence) => (batch.starts[sequence] as number) + depth(sequence)),
    blocks: Int32Array.from(tables.flatMap((table) => [...table])),
    blockStarts: startsOf(tables),
    adapters: adapters.length === 0 ? adapters : Int32Array.from(going, (at) => adapters[at] as number),
    ...(rotaryPositions && {
      rotaryPositions: Int32Array.from(
        going.flatMap((at) =>
          [...rotaryPositions.subarray(3 * at, 3 * at + 3)].map((position) => position + depth(at)),
        ),
      ),
    }),
    ...(batch.imageEnds && { imageEnds: Int32Array.from(going, (at) => batch.imageEnds?.[at] as number) }),
  };
}

function startsOf(tables: readonly Int32Array[]): Int32Array {
  const starts = new Int32Array(tables.length + 1);
  for (const [at, { length }] of tables.entries()) starts[at + 1] = (starts[at] as number) + length;
  return starts;
}
