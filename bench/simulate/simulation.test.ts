import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { PolicyName } from './policies.ts';
import { readSettings, SettingsError } from './settings.ts';
import { Simulation } from './simulation.ts';
import { layOut, policyTable, summarize } from './summary.ts';
import { makeTraffic, readTrace, replayTraffic } from './traffic.ts';

const small = ['--index-entries', '50000'];

function run(args: readonly string[], policies?: readonly PolicyName[]) {
  const settings = readSettings([...small, ...args]);
  const conversations =
    settings.trace === undefined
      ? makeTraffic(settings.traffic)
      : replayTraffic(settings.trace, settings.traffic.seed);
  const turns = conversations.reduce((sum, one) => sum + one.turns.length, 0);
  const compared = (policies ?? settings.policies).map((policy) => {
    const result = new Simulation(policy, settings, conversations).run();
    return { result, summary: summarize(result, conversations) };
  });
  return { turns, compared, summaries: compared.map(({ summary }) => summary) };
}

function withoutWallTime(args: readonly string[]) {
  return run(args).summaries.map(({ decisionUs, wallSeconds, ...rest }) => ({
    ...rest,
    decisions: decisionUs?.count,
  }));
}

describe('a simulation', () => {
  it('is the same every time with the same seed, and another with another', () => {
    const few = ['--policies', 'router,least-loaded'];
    const args = [...few, '--workers', '5', '--seconds', '10', '--failures', '400', '--loss', '0.05'];
    const first = withoutWallTime(args);
    expect(withoutWallTime(args)).toEqual(first);
    expect(withoutWallTime([...args, '--seed', '2'])).not.toEqual(first);
  });

  it('keeps conversations of 8 turns on three workers where their prefixes are', () => {
    const { summaries } = run(
      ['--workers', '3', '--conversations', '200', '--turns', '8', '--rate', '8', '--think-ms', '120000'],
      ['router', 'round-robin'],
    );
    const [router, roundRobin] = summaries;
    expect(router?.completed).toBe(1600);
    expect(router?.shareOfIdeal).toBeGreaterThan(0.9);
    expect(roundRobin?.shareOfIdeal).toBeLessThan(0.7);
    expect(router?.ttftMs?.p90).toBeLessThan(roundRobin?.ttftMs?.p90 ?? 0);
  });

  it('loses no request though workers die: each is answered whole, elsewhere where it must', () => {
    const few = ['--policies', 'router,round-robin'];
    const args = [...few, '--workers', '6', '--seconds', '40', '--failures', '120'];
    for (const downMs of ['4000', '400']) {
      const { turns, summaries } = run([...args, '--down-ms', downMs]);
      for (const { policy, completed, refused, unsent, deaths, moved } of summaries) {
        expect(completed + refused + unsent, policy).toBe(turns);
        expect(completed, policy).toBe(turns);
        expect(deaths, policy).toBeGreaterThan(2);
        expect(moved, policy).toBeGreaterThan(0);
      }
    }
  });

  it('fills gaps in news of caches with snapshots, and finds nearly as much as without gaps', () => {
    const args = ['--workers', '4', '--seconds', '60'];
    const [whole] = run(args, ['router']).summaries;
    const [lossy] = run([...args, '--loss', '0.2'], ['router']).summaries;
    expect(lossy?.messagesPerSecond.snapshots).toBeGreaterThan(0);
    expect(lossy?.cachedShare).toBeGreaterThan(0.97 * (whole?.cachedShare ?? 1));
  });

  it('brings prompts up from a folder that workers share, after deaths and where others have computed them', () => {
    const args = ['--workers', '6', '--seconds', '90', '--failures', '120', '--think-ms', '12000'];
    const [alone] = run(args, ['router']).summaries;
    const [sharing] = run([...args, '--folder-ms', '2', '--loss', '0.1'], ['router']).summaries;
    const [slow] = run([...args, '--folder-ms', '1000'], ['router']).summaries;
    expect([alone?.completed, sharing?.completed, slow?.completed]).toEqual(Array(3).fill(alone?.completed));
    expect(alone?.deaths).toBeGreaterThan(3);
    expect(sharing?.cachedShare).toBeGreaterThan((alone?.cachedShare ?? 0) + 0.05);
    expect(sharing?.ttftMs?.p90).toBeLessThan(0.9 * (alone?.ttftMs?.p90 ?? 0));
    // What is sooner computed is computed, and nobody goes where it would be loaded.
    expect(Math.abs((slow?.cachedShare ?? 0) - (alone?.cachedShare ?? 0))).toBeLessThan(0.02);
  });

  it('refuses what would wait too long under more load than the fleet can bear, and serves the rest in time', () => {
    const args = [
      '--workers',
      '3',
      '--rate',
      '12',
      '--seconds',
      '40',
      '--turns',
      '1',
      '--max-wait-ms',
      '4000',
    ];
    const { turns, summaries } = run(args, ['router']);
    const [router] = summaries;
    expect(router?.refused).toBeGreaterThan(turns / 10);
    expect((router?.completed ?? 0) + (router?.refused ?? 0)).toBe(turns);
    expect(router?.ttftMs?.p99).toBeLessThan(10_000);
  });

  it('lets HIGH pass LOW wherever it goes', () => {
    const args = [
      '--workers',
      '4',
      '--rate',
      '10',
      '--seconds',
      '40',
      '--high',
      '0.2',
      '--low',
      '0.8',
      '--turns',
      '1',
    ];
    const { compared } = run(args, ['router']);
    const meanOf = (priority: number) => {
      const own = (compared[0]?.result.records ?? []).filter(({ turn }) => turn.priority === priority);
      return own.reduce((sum, one) => sum + one.firstTokenMs - one.arrivedMs, 0) / own.length;
    };
    expect(meanOf(0)).toBeLessThan(0.5 * meanOf(2));
  });

  it('works with an index that is far too small, and finds less', () => {
    const args = ['--workers', '4', '--seconds', '60'];
    const [whole] = run(args, ['router']).summaries;
    const [tiny] = run([...args, '--index-entries', '40'], ['router']).summaries;
    expect(tiny?.completed).toBe(whole?.completed);
    expect(tiny?.index.forgotten).toBeGreaterThan(100);
    expect(tiny?.cachedShare).toBeLessThan(whole?.cachedShare ?? 0);
  });

  it('shows every policy in its table', () => {
    const { summaries } = run(['--workers', '2', '--seconds', '10']);
    const table = layOut(policyTable(summaries));
    for (const { policy } of summaries) expect(table).toContain(policy);
    expect(table).not.toContain('NaN');
  });
});

describe('a trace', () => {
  it('is replayed: its arrivals, lengths, shared beginnings and conversations', () => {
    const folder = mkdtempSync(join(tmpdir(), 'trace-'));
    try {
      const file = join(folder, 'trace.jsonl');
      const line = (arrivalMs: number, more: object) =>
        JSON.stringify({ arrivalMs, promptTokens: 200, answerTokens: 20, prefixGroup: 1, ...more });
      const lines = [
        line(0, {}),
        line(20_000, {}),
        line(40_000, { prefixGroup: 2 }),
        line(60_000, { prefixTokens: 0 }),
      ];
      writeFileSync(file, `${lines.join('\n')}\n`);
      const { compared } = run(['--workers', '1', '--trace', file, '--system-tokens', '128'], ['router']);
      const result = compared[0]?.result;
      expect(result?.records.map(({ arrivedMs }) => arrivedMs)).toEqual([2, 20_000, 40_000, 60_000]);
      // The second finds the four blocks that it shares with the first.
      expect([result?.promptTokens, result?.cachedTokens]).toEqual([800, 128]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.each([
    ['', 'no request in the file', 1],
    ['{"arrivalMs":1', 'is not JSON', 1],
    ['\n{"arrivalMs":-1,"promptTokens":1,"answerTokens":1}', 'arrivalMs', 2],
    ['{"arrivalMs":1,"promptTokens":0,"answerTokens":1}', 'promptTokens', 1],
    ['{"arrivalMs":1,"promptTokens":1,"answerTokens":1,"more":1}', 'more', 1],
  ])('that is %j is refused with its place', (text, reason, line) => {
    expect(readTrace(text, 0)).toMatchObject({
      kind: 'mistake',
      line,
      reason: expect.stringContaining(reason),
    });
  });
});

describe('settings', () => {
  it.each([
    [['--workers', '0'], '--workers must be a number of at least 1'],
    [['--workers', '1.5'], '--workers must be a whole number'],
    [['--rate', 'many'], '--rate must be a number'],
    [['--policies', 'router,best'], 'not "best"'],
    [['--user-tokens', 'long'], '--user-tokens must be one of'],
    [['--high', '0.7', '--low', '0.7'], 'together at most 1'],
    [['--loss', '2'], 'between 0 and 1'],
    [['--machine', 'abacus'], 'cpu or gpu'],
    [['--trace', '/nowhere/at/all'], '--trace'],
    [['--wrong'], '--wrong'],
  ])('%j are refused with a reason', (args, reason) => {
    expect(() => readSettings(args)).toThrow(SettingsError);
    expect(() => readSettings(args)).toThrow(reason);
  });
});
