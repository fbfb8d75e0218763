// The report of a comparison: a table of medians for each model, its plot, and which engines are missing and why.

import { linePlot } from '../dist/bench/plot/plots.js';
import { engines } from './engines.js';
import { commonStart, median } from './figures.js';
import { alignedTable } from './harness.js';

/**
 * @typedef {object} Workload
 * @property {string} name column of the table
 * @property {'decode' | 'prefill'} kind
 * @property {number} streams
 * @property {number} promptTokens
 * @property {number} answerTokens
 */

/**
 * @typedef {object} ModelResult
 * @property {string} model
 * @property {number[]} bandwidths bytes per second, one a round
 * @property {{ engine: string, workload: Workload, trials: import('./trials.js').Trial[], failure?: string }[]} cells
 */

/** @param {Workload} workload */
const speedOf = ({ kind }, trial) =>
  kind === 'prefill' ? trial.prefillTokensPerSecond : trial.decodeTokensPerSecond;

/**
 * Medians, ratios and builds, as plain data.
 * @param {ModelResult} result
 * @param {readonly string[]} names of the engines, in order
 * @param {readonly Workload[]} workloads
 */
export function summarize({ model, bandwidths, cells }, names, workloads) {
  const cellOf = (engine, workload) =>
    cells.find((cell) => cell.engine === engine && cell.workload === workload);
  const speed = (engine, workload) => {
    const trials = telling(cellOf(engine, workload)?.trials ?? []);
    return trials.length === 0 ? undefined : median(trials.map((trial) => speedOf(workload, trial)));
  };
  const byWorkload = (give) =>
    Object.fromEntries(workloads.map((workload) => [workload.name, give(workload)]));
  const contenders = names.map((engine) => {
    const trials = cells.filter((cell) => cell.engine === engine).flatMap((cell) => cell.trials);
    const failures = cells.filter((cell) => cell.engine === engine && cell.failure !== undefined);
    return {
      engine,
      version: trials[0]?.version,
      build: trials[0]?.build,
      tokensPerSecond: byWorkload((workload) => speed(engine, workload)),
      all: byWorkload(
        (workload) => cellOf(engine, workload)?.trials.map((trial) => speedOf(workload, trial)) ?? [],
      ),
      ...(engine === 'chairlift' ? {} : { ratio: byWorkload((workload) => ratio(speed, engine, workload)) }),
      disturbed: trials.filter((trial) => trial.disturbed).length,
      sameTokens: sameTokens(cells, engine),
      failures: failures.map(({ workload, failure }) => ({ workload: workload.name, reason: failure })),
    };
  });
  return { model, bandwidth: median(bandwidths), bandwidths, contenders };
}

/** Trials during which others used the machine count only where there are no better ones. */
function telling(trials) {
  const quiet = trials.filter((trial) => !trial.disturbed);
  return quiet.length > 0 ? quiet : trials;
}

function ratio(speed, engine, workload) {
  const own = speed('chairlift', workload);
  const peer = speed(engine, workload);
  return own === undefined || peer === undefined ? undefined : own / peer;
}

/** Of the first streams that both answered: how many greedy tokens are Chairlift's before the two part. */
function sameTokens(cells, engine) {
  const answers = (name) => cells.filter((cell) => cell.engine === name && cell.trials.length > 0);
  for (const { workload, trials } of answers(engine)) {
    const own = answers('chairlift').find((cell) => cell.workload === workload)?.trials[0]?.tokens;
    if (workload.kind === 'decode' && own !== undefined) {
      return { same: commonStart(own, trials[0].tokens), of: own.length };
    }
  }
  return undefined;
}

/** @param {ReturnType<typeof summarize>} summary */
export function table({ model, bandwidth, contenders }, workloads, threads, rounds) {
  const columns = workloads.map(({ name }) => name);
  const cells = [['tokens/s', ...columns]];
  for (const { engine, tokensPerSecond } of contenders) {
    cells.push([engines[engine].label, ...columns.map((name) => tokensPerSecond[name]?.toFixed(1) ?? '-')]);
  }
  for (const { engine, ratio } of contenders) {
    if (ratio === undefined) continue;
    cells.push([`Chairlift ÷ ${engine}`, ...columns.map((name) => ratio[name]?.toFixed(2) ?? '-')]);
  }
  const title = `${model}, ${threads} threads, read bandwidth ${(bandwidth / 1e9).toFixed(1)} GB/s, medians of ${rounds}`;
  return [title, '', alignedTable(cells), '', ...contenders.flatMap(notes)].join('\n');
}

function notes({ engine, version, build, disturbed, sameTokens, failures }) {
  const lines = [];
  if (version !== undefined) {
    const same = engine !== 'chairlift' && sameTokens !== undefined;
    const agreement = same ? `; first ${sameTokens.same} of ${sameTokens.of} tokens are Chairlift's` : '';
    lines.push(`${engines[engine].label}: ${version}; ${build}${agreement}`);
  }
  if (disturbed > 0) {
    lines.push(`${engines[engine].label}: others used the machine during ${disturbed} of its trials`);
  }
  for (const reason of new Set(failures.map((failure) => failure.reason))) {
    const workloads = failures.filter((failure) => failure.reason === reason).map(({ workload }) => workload);
    lines.push(`${engines[engine].label} failed at ${workloads.join(', ')}: ${reason}`);
  }
  return lines;
}

/** @param {ReturnType<typeof summarize>} summary */
export function plot({ model, contenders }, workloads) {
  const decode = workloads.filter(({ kind }) => kind === 'decode');
  const series = contenders
    .map(({ engine, tokensPerSecond }) => ({
      name: engines[engine].label,
      points: decode
        .filter(({ name }) => tokensPerSecond[name] !== undefined)
        .map(({ name, streams }) => /** @type {const} */ ([streams, tokensPerSecond[name]])),
    }))
    .filter(({ points }) => points.length > 0);
  return linePlot({
    title: `Decoding, ${model}`,
    x: { label: 'streams', from: 0, ticks: decode.map(({ streams }) => streams) },
    y: { label: 'tokens per second, all streams together' },
    series,
  });
}
