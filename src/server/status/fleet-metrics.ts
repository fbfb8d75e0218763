// Metrics of a gateway about its fleet: who is there, what is where, and how often requests had to move.

import { Counter, Gauge, Registry } from 'prom-client';

export interface FleetFigures {
  readonly members: readonly { readonly role: string; readonly state: string; readonly count: number }[];
  /** Absent where the message system did not say in time. */
  readonly placements?:
    | readonly { readonly model: string; readonly wanted: number; readonly placed: number }[]
    | undefined;
  /** Contents that go by one name. */
  readonly contents: readonly { readonly model: string; readonly contents: number }[];
  /** Since the start of this gateway. */
  readonly reassignments: number;
  readonly resends: number;
  /** Prompt tokens that workers were chosen for, as they were expected to have them. */
  readonly expectedTokens: { readonly memory: number; readonly host: number; readonly disk: number };
  /** Of the member that has been silent for longest. */
  readonly oldestStatusMs: number;
  /** Absent where nothing is archived, or the message system did not say in time. */
  readonly archiveBytes?: number | undefined;
}

export class FleetMetrics {
  readonly #registry = new Registry();
  readonly #members = this.#gauge('members', 'Nodes of the fleet, by role and state', ['role', 'state']);
  readonly #placements = this.#gauge('placed_models', 'Workers of placed models, wanted and found', [
    'model',
    'workers',
  ]);
  readonly #contents = this.#gauge('model_contents', 'Different files that workers have by one name', [
    'model',
  ]);
  readonly #statusAge = this.#gauge('oldest_status_seconds', 'Since the member that is silent for longest');
  readonly #archive = this.#gauge(
    'archive_bytes',
    'Requests kept for clients that come back, of the whole fleet',
  );
  readonly #reassignments = this.#counter(
    'reassignments_total',
    'Requests of this gateway that changed workers',
  );
  readonly #resends = this.#counter('resends_total', 'Requests sent to their worker again, unacknowledged');

  readonly #expected = new Counter({
    name: 'chairlift_fleet_expected_prefix_tokens_total',
    help: 'Prompt tokens of this gateway that workers were expected not to compute, by where they lay',
    labelNames: ['tier'],
    registers: [this.#registry],
  });

  async text(figures: FleetFigures): Promise<string> {
    this.#take(figures);
    return `${await this.#registry.metrics()}\n`;
  }

  #take(figures: FleetFigures): void {
    for (const gauge of [this.#members, this.#placements, this.#contents]) gauge.reset();
    this.#archive.remove();
    for (const { role, state, count } of figures.members) this.#members.set({ role, state }, count);
    for (const { model, wanted, placed } of figures.placements ?? []) {
      this.#placements.set({ model, workers: 'wanted' }, wanted);
      this.#placements.set({ model, workers: 'placed' }, placed);
    }
    for (const { model, contents } of figures.contents) this.#contents.set({ model }, contents);
    this.#statusAge.set(figures.oldestStatusMs / 1000);
    if (figures.archiveBytes !== undefined) this.#archive.set(figures.archiveBytes);
    this.#expected.reset();
    for (const [tier, tokens] of Object.entries(figures.expectedTokens)) this.#expected.inc({ tier }, tokens);
    for (const [counter, total] of [
      [this.#reassignments, figures.reassignments],
      [this.#resends, figures.resends],
    ] as const) {
      counter.reset();
      counter.inc(total);
    }
  }

  #gauge<Label extends string = never>(name: string, help: string, labelNames: Label[] = []): Gauge<Label> {
    return new Gauge({ name: `chairlift_fleet_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #counter(name: string, help: string): Counter {
    return new Counter({ name: `chairlift_fleet_${name}`, help, registers: [this.#registry] });
  }
}
