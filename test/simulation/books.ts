// Whether what is charged is what was received. An answer whose end arrived is charged exactly; of one that was left, at least what
// arrived and at most all of it. What a gateway had not written yet when it died is lost, as the documentation says.

import type { Tables } from '../../src/store/database.ts';
import type { BatchResult } from './batch.ts';
import type { ReceivedAnswer } from './client.ts';
import type { Fault } from './faults.ts';

/** A write that fails is tried again after this time at the latest. */
const RETRY_MS = 35_000;
const FLUSH_MS = 1000;

interface Troubles {
  readonly faults: readonly Fault[];
  readonly deaths: readonly { readonly name: string; readonly atMs: number }[];
}

export async function bookProblems(
  tables: Pick<Tables, 'selectFrom'>,
  answers: readonly ReceivedAnswer[],
  batches: readonly BatchResult[],
  troubles: Troubles,
): Promise<string[]> {
  const charged = await tables.selectFrom('charged_request').selectAll().execute();
  const byId = new Map(charged.map((row) => [row.request_id, row]));
  const problems: string[] = [];
  for (const answer of answers) {
    const row = byId.get(answer.answerId);
    const least = answer.tokens;
    const most = answer.isWhole ? least + answer.withheld : answer.mostTokens;
    if (row === undefined) {
      if (!mayBeLost(answer, troubles))
        problems.push(`${answer.of}: ${least} tokens of ${answer.answerId} are not charged`);
    } else if (
      row.completion_tokens > most ||
      (row.completion_tokens < least && !mayBeLost(answer, troubles))
    ) {
      problems.push(
        `${answer.of}: ${row.completion_tokens} tokens are charged, ${least} to ${most} were received`,
      );
    } else if (row.prompt_tokens !== answer.promptTokens) {
      problems.push(
        `${answer.of}: ${row.prompt_tokens} prompt tokens are charged instead of ${answer.promptTokens}`,
      );
    }
  }
  const all = await tables.selectFrom('key_usage').select('completion_tokens').execute();
  const total = all.reduce((sum, row) => sum + row.completion_tokens, 0);
  const streamed = charged.reduce((sum, row) => sum + row.completion_tokens, 0);
  const kept = await tables.selectFrom('batch').select(['input_file_id', 'state', 'completed']).execute();
  let least = streamed;
  let most = streamed;
  for (const { input_file_id, state, completed } of kept) {
    // An order whose answer was lost is given again, and is another batch: both are answered, and charged.
    const tokens = batches.find(({ inputFile }) => inputFile === input_file_id)?.tokens ?? 0;
    const isOver = state === 'completed';
    if (isOver) least += tokens;
    if (isOver || completed > 0) most += tokens;
  }
  if (total < least || total > most)
    problems.push(
      `${total} tokens are charged in all: ${streamed} of streams, ${least} to ${most} with batches`,
    );
  return problems;
}

/** Its gateway died before it could write: at once where the database did not answer, and otherwise where nothing was awaited. */
function mayBeLost({ gateways, endedMs, isWhole }: ReceivedAnswer, { faults, deaths }: Troubles): boolean {
  const wasAway = faults.some(
    ({ kind, atMs, durationMs }) =>
      kind.startsWith('database') && atMs <= endedMs + FLUSH_MS && atMs + durationMs + RETRY_MS >= endedMs,
  );
  const graceMs = wasAway ? Number.POSITIVE_INFINITY : FLUSH_MS;
  return deaths.some(
    ({ name, atMs }) =>
      gateways.includes(name) && (isWhole ? atMs >= endedMs - FLUSH_MS && atMs <= endedMs + graceMs : true),
  );
}
