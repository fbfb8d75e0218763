// Mistakes as people make them, each a change of one place: the simulation must find them. They are planted into a copy of the
// compiled program, so that nothing in the program knows of them.

export interface PlantedBug {
  readonly name: string;
  readonly file: string;
  /** There once, in the source and in what is compiled of it. */
  readonly find: string;
  readonly replace: string;
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'a gap in the tokens is not noticed',
    file: 'src/fleet/gateway/open-answer',
    find: "if (from > this.tokens.length) return 'gap';",
    replace: '',
  },
  {
    name: 'repeated tokens are delivered again',
    file: 'src/fleet/gateway/open-answer',
    find: 'const fresh = tokens.slice(this.tokens.length - from);',
    replace: 'const fresh = tokens;',
  },
  {
    name: 'the end of an answer is not asked for again',
    file: 'src/fleet/gateway/dispatcher',
    find: 'if (one.count > open.tokens.length || one.ended)',
    replace: 'if (one.count > open.tokens.length)',
  },
  {
    name: 'a request that was lost on its way is not sent again',
    file: 'src/fleet/gateway/dispatcher',
    find: 'if (isSilent) this.#resend(open);',
    replace: '',
  },
  {
    name: 'a worker that makes no progress keeps its requests',
    file: 'src/fleet/gateway/dispatcher',
    find: 'if (isDeaf || choice.health.isStuck(worker, open.model.name)) {',
    replace: 'if (false) {',
  },
  {
    name: 'what is settled is kept',
    file: 'src/fleet/worker/fleet-worker',
    find: "else if (message.kind === 'settled') this.ledger.settle(message);",
    replace: "else if (message.kind === 'settled') {}",
  },
  {
    name: 'a gateway is ready though its models are away',
    file: 'src/server/status/health',
    find: "case 'away': return",
    replace: "case 'away': return undefined; return",
  },
  {
    name: 'a gateway that is cut off stays ready',
    file: 'src/fleet/fleet-node',
    find: 'return this.#lostMs !== undefined && this.#options.nowMs() - this.#lostMs > LEASE_MS;',
    replace: 'return false;',
  },
  {
    name: 'models whose workers are away are unknown',
    file: 'src/fleet/gateway/away-models',
    find: 'const AWAY_MS = 900_000;',
    replace: 'const AWAY_MS = 0;',
  },
  {
    name: 'the first count of a request is charged, not the largest',
    file: 'src/store/usage-batch',
    find: 'completionTokens: Math.max(0, row.completionTokens - before.completion_tokens),',
    replace: 'completionTokens: 0,',
  },
  {
    name: 'usage is written again where the answer to a write was lost',
    file: 'src/store/usage-batch',
    find: 'if (marked.numInsertedOrUpdatedRows === 0n) return;',
    // Without the mark alone each request would still count once, by its id.
    replace:
      'if (marked.numInsertedOrUpdatedRows === 0n) return void (await insertUsage(tables, gathered([...rows, ...once.values()])));',
  },
  {
    name: 'usage is forgotten where a write fails',
    file: 'src/store/usage-store',
    find: 'this.#tried = batch;',
    replace: '',
  },
  {
    name: 'the clock of a gateway says when a batch expires',
    file: 'src/server/batches/batch-runner',
    find: 'const nowMs = open.length === 0 ? 0 : await this.#batches.store.nowMs();',
    replace: 'const nowMs = Date.now();',
  },
  {
    name: 'a gateway that was held up takes everybody for dead',
    file: 'src/fleet/running-clock',
    find: 'if (passedMs > LATE_MS) this.#missedMs += passedMs - TICK_MS;',
    replace: '',
  },
  {
    name: 'a line that was answered is answered again',
    file: 'src/store/batch-lines',
    find: 'if (kept.numUpdatedRows === 0n) {',
    replace: 'if (false) {',
  },
  {
    name: 'cancelled sequences keep their blocks',
    file: 'src/engine/engine',
    find: 'this.#scheduler.finish(open.sequence);',
    replace: "if (reason !== 'cancelled') this.#scheduler.finish(open.sequence);",
  },
];
