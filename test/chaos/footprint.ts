// What the server holds when nobody asks: memory of its process and of its engines, timers and other resources that
// keep its event loop alive.

import { setTimeout as sleep } from 'node:timers/promises';
import { sumOf } from './counters.ts';
import { descriptorsOf, heldBytes, processTable } from './process-table.ts';
import type { Trial } from './trial.ts';

export interface Footprint {
  readonly serverBytes: number;
  readonly enginesBytes: number;
  readonly engines: number;
  /** Undefined where the server does not tell. */
  readonly timers: number | undefined;
  /** Of the server's process; undefined where the system does not tell. */
  readonly descriptors: number | undefined;
}

const SAMPLE_MS = 1000;
/** How much more than before is no leak: a share, and what heaps keep that were once pressed for room. */
const TOLERANCE = 0.1;
const KEPT_BYTES = 64e6;
/** Connections of the database and of the client that reads these numbers. */
const KEPT_DESCRIPTORS = 8;

/** The least within the time: garbage is collected when the collector sees fit, not when asked. */
export async function footprint(trial: Trial, calmMs: number): Promise<Footprint> {
  let serverBytes = Number.POSITIVE_INFINITY;
  let enginesBytes = Number.POSITIVE_INFINITY;
  let engines = 0;
  for (let waitedMs = 0; waitedMs < calmMs; waitedMs += SAMPLE_MS) {
    await sleep(SAMPLE_MS);
    const table = await processTable();
    const own = table.filter(({ parent, defunct }) => parent === trial.server.pid && !defunct);
    const sum = own.reduce((total, entry) => total + heldBytes(entry), 0);
    const server = table.find(({ pid }) => pid === trial.server.pid);
    if (server !== undefined) {
      serverBytes = Math.min(serverBytes, heldBytes(server) - reserveOf((await trial.admin.scrape()).text));
    }
    enginesBytes = Math.min(enginesBytes, sum);
    engines = own.length;
  }
  const { text } = await trial.admin.scrape();
  // A kind of resource of which there is none is not listed.
  const told = sumOf(text, 'nodejs_active_resources_total') !== undefined;
  const timers = told ? (sumOf(text, 'nodejs_active_resources', 'type="Timeout"') ?? 0) : undefined;
  return { serverBytes, enginesBytes, engines, timers, descriptors: descriptorsOf(trial.server.pid) };
}

/** Of two at different times, what was the least. Engines are those of the later one. */
export function smaller(earlier: Footprint, later: Footprint): Footprint {
  const { timers, descriptors } = later;
  return {
    serverBytes: Math.min(earlier.serverBytes, later.serverBytes),
    enginesBytes: Math.min(earlier.enginesBytes, later.enginesBytes),
    engines: later.engines,
    timers: timers === undefined ? undefined : Math.min(timers, earlier.timers ?? timers),
    descriptors:
      descriptors === undefined ? undefined : Math.min(descriptors, earlier.descriptors ?? descriptors),
  };
}

/** What the heap has taken and not filled: after a rush of thousands of sequences it is given back late, and in part. */
function reserveOf(metrics: string): number {
  const total = sumOf(metrics, 'nodejs_heap_size_total_bytes') ?? 0;
  return Math.max(0, total - (sumOf(metrics, 'nodejs_heap_size_used_bytes') ?? total));
}

/** What has grown beyond what is allowed. */
export function growth(before: Footprint, after: Footprint): string[] {
  const complaints: string[] = [];
  const compare = (what: string, was: number, is: number) => {
    if (is <= was * (1 + TOLERANCE) + KEPT_BYTES) return;
    const more = Math.round(100 * (is / was - 1));
    complaints.push(`${what}: ${megabytes(was)} before, ${megabytes(is)} after, ${more} % more`);
  };
  compare('memory of the server', before.serverBytes, after.serverBytes);
  compare('memory of the engines', before.enginesBytes, after.enginesBytes);
  if (before.engines !== after.engines) {
    complaints.push(`engine processes: ${before.engines} before, ${after.engines} after`);
  }
  if (before.timers !== undefined && after.timers !== undefined && after.timers > before.timers) {
    complaints.push(`timers: ${before.timers} before, ${after.timers} after`);
  }
  const { descriptors = 0 } = after;
  if (before.descriptors !== undefined && descriptors > before.descriptors + KEPT_DESCRIPTORS) {
    complaints.push(`descriptors: ${before.descriptors} before, ${descriptors} after`);
  }
  return complaints;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
