// What a simulated fleet of whole nodes says: messages of each kind, and what a node spends on them.

import type { RowTable } from '#src/bench/plot/page.ts';
import { formatNumber } from '#src/bench/serve/report-rows.ts';
import { distributionOf } from '#src/bench/statistics.ts';
import type { Traffic } from './counted-bus.ts';
import type { WholeFleetResult } from './whole-fleet.ts';

/** Who is there, and how busy: everything but requests and their answers. */
const KINDS_OF_STATUS = ['status', 'summary'];

export function trafficTable({ sent, traffic, seconds }: WholeFleetResult): RowTable {
  const number = (value: number) => formatNumber(value);
  const rows = traffic.map((one) => {
    const { messages, encodeMs } = sent.get(one.kind) ?? { messages: 0, encodeMs: 0 };
    return [
      `${one.kind} to ${one.role}`,
      number(messages / seconds),
      number(one.deliveries / seconds),
      number(one.deliveredBytes / one.deliveries),
      number(one.deliveredBytes / seconds / 1e6),
      number((1000 * encodeMs) / messages),
      number((1000 * one.decodeMs) / one.deliveries),
      number((1000 * one.handleMs) / one.deliveries),
    ];
  });
  const units = ['bytes each', 'MB/s', 'encode, µs', 'decode, µs', 'handle, µs'];
  return { headings: ['', 'published/s', 'delivered/s', ...units], rows: rows.sort() };
}

export function wholeFigures(
  { traffic, seconds, placingMs, answered, failed, firstTokenMs }: WholeFleetResult,
  { workers, gateways }: { readonly workers: number; readonly gateways: number },
) {
  const statuses = traffic.filter(({ kind }) => KINDS_OF_STATUS.includes(kind));
  const perSecond = (of: (one: Traffic) => number, among = statuses) =>
    among.reduce((total, one) => total + of(one), 0) / seconds;
  const percent = (role: Traffic['role'], nodes: number) => {
    const own = statuses.filter((one) => one.role === role);
    return Number((perSecond(({ decodeMs, handleMs }) => decodeMs + handleMs, own) / 10 / nodes).toFixed(2));
  };
  const placing = distributionOf(placingMs.map((ms) => 1000 * ms));
  return {
    statusDeliveriesPerSecond: Math.round(perSecond(({ deliveries }) => deliveries)),
    statusMegabytesPerSecond: Number((perSecond(({ deliveredBytes }) => deliveredBytes) / 1e6).toFixed(2)),
    statusPercentOfACoreAtAGateway: percent('gateway', gateways),
    statusPercentOfACoreAtAWorker: percent('worker', workers),
    deliveriesPerSecond: Math.round(perSecond(({ deliveries }) => deliveries, [...traffic])),
    placingMicrosecondsP50: Math.round(placing?.p50 ?? 0),
    placingMicrosecondsP99: Math.round(placing?.p99 ?? 0),
    firstTokenMsP50: Math.round(distributionOf([...firstTokenMs])?.p50 ?? 0),
    answered,
    failed,
  };
}
