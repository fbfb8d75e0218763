// What lies in ops/ names only what exists: metrics of a real server, settings and paths of the real package.

import { spawnSync } from 'node:child_process';
import { createHash, randomBytes, X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { formulaFor } from '../scripts/homebrew.js';
import { configOptions, optionNames, variableOf } from '../src/config-options.ts';
import { Subjects } from '../src/fleet/bus.ts';
import { claimName } from '../src/fleet/node-name.ts';
import { linkOf } from './support/fleet-link.ts';
import { messages, start } from './support/keyed-server.ts';
import { startNats } from './support/nats-server.ts';
import type { TestServerOptions } from './support/test-server.ts';

const pathOf = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const textOf = (name: string) => readFileSync(pathOf(name), 'utf8');
const has = (program: string) => spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
const hasPromtool = has('promtool');
const hasSystemd = has('systemd-analyze');

function run(program: string, ...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  return { status, output: stdout + stderr };
}

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const board = JSON.parse(textOf('ops/grafana-board.json')) as { readonly panels: readonly Panel[] };
const expressions = board.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
const metricName = /\b(?:chairlift|nodejs|process)_[a-z0-9_]+/g;

/** Every name that Prometheus would know after a scrape. */
function namesIn(scrape: string): Set<string> {
  const types = [...scrape.matchAll(/^# TYPE (\S+) (\S+)$/gm)];
  return new Set(
    types.flatMap(([, name, type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [`${name}`],
    ),
  );
}

/** A gateway counts more than a server alone. */
const fleet = {
  figures: async () => ({
    members: [{ role: 'worker', state: 'serving', count: 2 }],
    placements: [{ model: 'm', wanted: 2, placed: 1 }],
    contents: [{ model: 'm', contents: 1 }],
    reassignments: 3,
    resends: 4,
    expectedTokens: { memory: 96, host: 32, disk: 64 },
    oldestStatusMs: 500,
    archiveBytes: 1024,
  }),
} as unknown as TestServerOptions['fleet'];

async function scrape(): Promise<string> {
  const { app } = await start({ fleet, spanCounts: { exported: 1, dropped: 0 } });
  await app.inject({ method: 'POST', url: '/v1/chat/completions', payload: { messages, max_tokens: 3 } });
  return (await app.inject({ url: '/metrics' })).body;
}

describe('the board and the alerts', () => {
  it.each(['ops/grafana-board.json', 'ops/prometheus-rules.yml'])(
    '%s names metrics that exist',
    async (file) => {
      const wanted = new Set(textOf(file).match(metricName));
      const known = namesIn(await scrape());
      expect(wanted.size).toBeGreaterThan(5);
      expect([...wanted].filter((name) => !known.has(name))).toEqual([]);
    },
  );

  it('between them show everything the server counts', async () => {
    const shown = `${textOf('ops/grafana-board.json')}${textOf('ops/prometheus-rules.yml')}`;
    const counted = [...(await scrape()).matchAll(/^# TYPE (chairlift_\S+) /gm)].map(([, name]) => `${name}`);
    // Exported for one version more, beside its new name.
    const former = 'chairlift_guessed_tokens_total';
    expect(counted.filter((name) => !shown.includes(name))).toEqual([former]);
  });

  it('select by labels that the metrics have', async () => {
    const text = await scrape();
    const given = ['instance', 'job', 'le'];
    const selectors = `${expressions.join('\n')}\n${textOf('ops/prometheus-rules.yml')}`.matchAll(
      /\b(chairlift_\w+)\{([^}]*)\}/g,
    );
    for (const [, name, inside] of selectors) {
      const sample = text.match(new RegExp(`^${name}\\{(.*)\\}`, 'm'))?.[1];
      // No such thing has happened: it has no labels yet.
      if (sample === undefined) continue;
      const labels = [...(inside ?? '').matchAll(/(\w+)(?:=|!)/g)].map(([, label]) => `${label}`);
      const unknown = labels.filter((label) => !given.includes(label) && !sample.includes(`${label}="`));
      expect([name, unknown]).toEqual([name, []]);
    }
  });

  it.skipIf(!hasPromtool)('are understood by Prometheus (skipped where promtool is not installed)', () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-ops-'));
    try {
      // Grafana fills its variables in before it asks.
      const rules = expressions.map((expr, index) => ({
        record: `board:${index}`,
        expr: expr.replaceAll('$__rate_interval', '1m'),
      }));
      const file = join(folder, 'board.json');
      writeFileSync(file, JSON.stringify({ groups: [{ name: 'board', rules }] }));
      for (const path of [file, pathOf('ops/prometheus-rules.yml')]) {
        const { status, output } = run('promtool', 'check', 'rules', path);
        expect(status, output).toBe(0);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.skipIf(!hasPromtool)(
    'alert for what they are for alone (skipped where promtool is not installed)',
    () => {
      const { status, output } = run(
        'promtool',
        'test',
        'rules',
        pathOf('test/fixtures/prometheus-rules.test.yml'),
      );
      expect(status, output).toBe(0);
    },
  );
});

describe('the container and the service', () => {
  const variables = optionNames.map(variableOf);

  it.each(['ops/Containerfile', 'ops/chairlift.service', 'ops/compose.yml', 'ops/kubernetes.yml'])(
    '%s sets only what can be set',
    (file) => {
      const named = textOf(file).match(/\bCHAIRLIFT_[A-Z_]+/g) ?? [];
      expect(named.length).toBeGreaterThan(0);
      expect(named.filter((name) => !variables.includes(name))).toEqual([]);
    },
  );

  it('give running requests the time that the server gives them', () => {
    const seconds = Number(textOf('ops/chairlift.service').match(/^TimeoutStopSec=(\d+)s$/m)?.[1]);
    expect(seconds).toBeGreaterThan(configOptions.shutdownLimit.default);
  });

  it('give pods longer than that', () => {
    const text = textOf('ops/kubernetes.yml');
    const secondsOf = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, seconds]) => Number(seconds));
    const graces = secondsOf(/terminationGracePeriodSeconds: (\d+)/g);
    const limits = secondsOf(/CHAIRLIFT_SHUTDOWN_LIMIT\n\s+value: "(\d+)"/g);
    expect(graces.length).toBe(2);
    expect(limits.length).toBe(2);
    for (const [at, grace] of graces.entries()) expect(grace).toBeGreaterThan(limits[at] as number);
  });

  it.skipIf(!hasSystemd)('are understood by systemd (skipped where systemd-analyze is not installed)', () => {
    const { output } = run(
      'systemd-analyze',
      'verify',
      pathOf('ops/chairlift.service'),
      pathOf('ops/chairlift.socket'),
    );
    // What it starts need not be installed here.
    const complaints = output
      .split('\n')
      .filter((line) => line !== '' && !line.includes('is not executable'));
    expect(complaints).toEqual([]);
  });
});

describe('the NATS of a fleet', () => {
  const given = /v(\d+)\.(\d+)/.exec(
    spawnSync('nats-server', ['--version'], { encoding: 'utf8' }).stdout ?? '',
  );
  const [major, minor] = (given ?? []).slice(1).map(Number);
  const knowsSync = major === 2 && (minor as number) >= 10;
  const cannotRun = given === null || !has('openssl');

  it('acknowledges what is on its disk, and is started so', () => {
    expect(textOf('ops/nats.conf')).toMatch(/^ {2}sync_interval: always$/m);
    const compose = textOf('ops/compose.yml');
    expect(compose).toContain('./nats.conf:/etc/nats/chairlift.conf:ro');
    expect(compose).toContain('command: [--config, /etc/nats/chairlift.conf]');
  });

  it.skipIf(cannotRun)(
    'lets its users in by TLS alone, with certificates of ops/certificates.sh (skipped without nats-server and openssl)',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'chairlift-ops-'));
      const { status, output } = run('sh', pathOf('ops/certificates.sh'), folder, 'llm.example', '10.0.0.7');
      expect(status, output).toBe(0);
      const gateway = new X509Certificate(readFileSync(join(folder, 'gateway.pem')));
      expect([gateway.checkHost('llm.example'), gateway.checkIP('10.0.0.7')]).toEqual([
        'llm.example',
        '10.0.0.7',
      ]);
      const settings = textOf('ops/nats.conf')
        .replaceAll('/etc/nats/', `${folder}/`)
        .replace('/data', folder)
        .replaceAll(/\$([A-Z\d]+)_NATS_PASSWORD/g, '$1')
        // Older servers do not know it.
        .replace('sync_interval: always', knowsSync ? '$&' : '');
      const nats = await startNats(folder, settings);
      try {
        const given = { join: `tls://127.0.0.1:${nats.port}`, natsUser: 'worker1', natsPassword: 'WORKER1' };
        await expect(linkOf(given)).rejects.toThrow(/--nats-ca/);
        const bus = await linkOf({ ...given, natsCa: join(folder, 'ca.pem'), node: 'worker1', worker: true });
        expect(await claimName(bus, new Subjects('main'), 'worker1', randomBytes)).toBeUndefined();
        await bus.close();
      } finally {
        await nats.stop();
        rmSync(folder, { recursive: true });
      }
    },
  );
});

describe('what runs it on a Mac', () => {
  const plist = textOf('ops/local.chairlift.plist');

  it('sets only what can be set', () => {
    const variables = optionNames.map(variableOf);
    const named = plist.match(/\bCHAIRLIFT_[A-Z_]+/g) ?? [];
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((name) => !variables.includes(name))).toEqual([]);
  });

  it('gives running requests the time that the server gives them', () => {
    const seconds = Number(/<key>ExitTimeOut<\/key>\s*<integer>(\d+)<\/integer>/.exec(plist)?.[1]);
    expect(seconds).toBeGreaterThan(configOptions.shutdownLimit.default);
  });

  it('is a property list: every key has a value, every element its end', () => {
    const inside = plist.replace(/<!--.*?-->/gs, '').replace(/^.*?<plist version="1.0">|<\/plist>\s*$/gs, '');
    const value = '<(?:string|integer)>[^<]+</(?:string|integer)>|<true/>|<false/>';
    let reduced = inside.replace(/\s+</g, '<').trim();
    // From the inside out: an array or a dictionary of values is a value.
    const whole = new RegExp(
      `<array>(?:${value})*</array>|<dict>(?:<key>[^<]+</key>(?:${value}))*</dict>`,
      'g',
    );
    for (let before = ''; before !== reduced; ) {
      before = reduced;
      reduced = reduced.replace(whole, '<true/>');
    }
    expect(reduced).toBe('<true/>');
  });

  it('is filled in by the command that the page gives', () => {
    const [, command] =
      /^(sed .*local\.chairlift\.plist.*(?:\n.*)?)$/m.exec(textOf('docs/operations.md')) ?? [];
    expect(command).toContain('s|HOME|');
    expect(command).toContain('s|PREFIX|');
    expect(plist.replaceAll('HOME', '').replaceAll('PREFIX', '')).not.toMatch(/\/Users\//);
  });

  it('has a formula with address, version and checksum of a package', () => {
    const bytes = Buffer.from('package');
    const url = 'https://example.org/chairlift-1.2.3.tgz';
    const formula = formulaFor({ bytes, version: '1.2.3', url });
    expect(formula).toContain(`url "${url}"`);
    expect(formula).toContain('version "1.2.3"');
    expect(formula).toContain(`sha256 "${createHash('sha256').update(bytes).digest('hex')}"`);
    expect(formula).not.toContain('PACKAGE_');
    for (const bad of [
      'chairlift.tgz',
      'https://example.org/#{exit}.tgz',
      'https://example.org/a".tgz',
      'ftp://a/b.tgz',
    ]) {
      expect(() => formulaFor({ bytes, version: '1.2.3', url: bad })).toThrow(/is no address of a package/);
    }
  });
});
