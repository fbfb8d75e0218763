// A fleet on one machine, for tests and for trying it out: every node in a network namespace of its own with an address of its
// own, a real NATS cluster of three, a real Postgres. `node scripts/fleet-lab.js` starts one and says where it is.
// Needs Linux, root, and the programs `ip`, `nats-server` and Postgres.

import { spawn, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../bin/chairlift.js', import.meta.url));
const POSTGRES = '/usr/lib/postgresql';
const USER = 'fleet';
const PASSWORD = 'lab';
const START_MS = 60_000;

export function labRefusal() {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'network namespaces need Linux and root';
  for (const [name, version] of [
    ['ip', '-V'],
    ['nats-server', '--version'],
  ]) {
    if (spawnSync(name, [version]).error !== undefined) return `${name} is not installed`;
  }
  if (postgresFolder() === undefined) return 'Postgres is not installed';
  const name = `cl-try-${process.pid}`;
  if (spawnSync('ip', ['netns', 'add', name]).status !== 0) return 'network namespaces cannot be made here';
  spawnSync('ip', ['netns', 'delete', name]);
  return undefined;
}

function postgresFolder() {
  if (!existsSync(POSTGRES)) return undefined;
  const versions = readdirSync(POSTGRES).sort((a, b) => Number(b) - Number(a));
  return versions
    .map((version) => join(POSTGRES, version, 'bin'))
    .find((path) => existsSync(join(path, 'initdb')));
}

function must(command, ...args) {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (error !== undefined || status !== 0) {
    throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`);
  }
}

export class FleetLab {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-lab-'));
  /** @type {Map<string, { address: string, link: string, space: string, child: import('node:child_process').ChildProcess | undefined }>} */
  #hosts = new Map();
  #tag = (process.pid % 46_656).toString(36).padStart(3, '0');
  #net = `10.83.${process.pid % 250}`;
  #stopped = false;

  constructor() {
    chmodSync(this.folder, 0o755);
    must('ip', 'link', 'add', this.#bridge, 'type', 'bridge');
    must('ip', 'address', 'add', `${this.#net}.254/24`, 'dev', this.#bridge);
    must('ip', 'link', 'set', this.#bridge, 'up');
  }

  get #bridge() {
    return `clb${this.#tag}`;
  }

  get servers() {
    return ['nats1', 'nats2', 'nats3'].map((name) => `nats://${this.address(name)}:4222`);
  }

  get database() {
    return `postgres://postgres@${this.address('postgres')}/chairlift`;
  }

  address(name) {
    return this.#host(name).address;
  }

  url(name) {
    return `http://${this.address(name)}:8000`;
  }

  log(name) {
    return join(this.folder, `${name}.log`);
  }

  /** Adds a host: a network namespace on the common network. */
  addHost(name) {
    const number = this.#hosts.size + 1;
    const [space, link] = [`cl${this.#tag}-${name}`, `cl${this.#tag}${number}`];
    const address = `${this.#net}.${number}`;
    must('ip', 'netns', 'add', space);
    this.#hosts.set(name, { address, link, space, child: undefined });
    must('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', space);
    must('ip', 'link', 'set', link, 'master', this.#bridge, 'up');
    for (const args of [
      ['address', 'add', `${address}/24`, 'dev', 'eth0'],
      ['link', 'set', 'eth0', 'up'],
      ['link', 'set', 'lo', 'up'],
    ]) {
      must('ip', '-n', space, ...args);
    }
  }

  /** Takes its link down, without notice. */
  cut(name) {
    must('ip', 'link', 'set', this.#host(name).link, 'down');
  }

  mend(name) {
    must('ip', 'link', 'set', this.#host(name).link, 'up');
  }

  run(name, command, args, environment = {}) {
    const host = this.#host(name);
    const child = spawn('ip', ['netns', 'exec', host.space, command, ...args], {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text) => {
        if (!this.#stopped) appendFileSync(this.log(name), text);
      });
    }
    host.child = child;
    return child;
  }

  /**
   * Resolves when its program has ended.
   * @param {NodeJS.Signals} signal
   */
  async kill(name, signal = 'SIGKILL') {
    const { child } = this.#host(name);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  }

  async startNats() {
    const names = ['nats1', 'nats2', 'nats3'];
    for (const name of names) this.addHost(name);
    for (const name of names) this.runNats(name);
    await until(() => names.every((name) => this.#says(name, 'Server is ready')), 'NATS does not start');
    await until(
      () => names.some((name) => this.#says(name, 'JetStream cluster new metadata leader')),
      'the NATS cluster finds no leader',
    );
  }

  runNats(name) {
    const routes = this.#names('nats').map((one) => `nats://${this.address(one)}:6222`);
    const file = join(this.folder, `${name}.conf`);
    writeFileSync(
      file,
      [
        `server_name: ${name}`,
        `listen: "${this.address(name)}:4222"`,
        `jetstream { store_dir: "${join(this.folder, name)}" }`,
        `authorization { user: ${USER}, password: ${PASSWORD} }`,
        `cluster { name: lab, listen: "${this.address(name)}:6222", routes: [${routes.map((one) => `"${one}"`).join(', ')}] }`,
        'ping_interval: "2s"',
      ].join('\n'),
    );
    this.run(name, 'nats-server', ['-c', file]);
  }

  async startPostgres() {
    const name = 'postgres';
    this.addHost(name);
    const data = join(this.folder, name);
    mkdirSync(data);
    must('chown', 'postgres', data);
    const programs = postgresFolder() ?? '';
    must(
      'runuser',
      '-u',
      'postgres',
      '--',
      join(programs, 'initdb'),
      '-D',
      data,
      '-U',
      'postgres',
      '-A',
      'trust',
      '-N',
    );
    appendFileSync(join(data, 'pg_hba.conf'), `\nhost all all ${this.#net}.0/24 trust\n`);
    await this.runPostgres();
    must(
      'ip',
      'netns',
      'exec',
      this.#host(name).space,
      join(programs, 'createdb'),
      '-h',
      this.address(name),
      '-U',
      'postgres',
      'chairlift',
    );
  }

  async runPostgres() {
    const name = 'postgres';
    const data = join(this.folder, name);
    const before = this.#count(name, 'database system is ready to accept connections');
    this.run(name, 'runuser', [
      '-u',
      'postgres',
      '--',
      join(postgresFolder() ?? '', 'postgres'),
      ...['-D', data, '-h', this.address(name), '-k', ''],
      ...['-c', 'fsync=off'],
    ]);
    await until(
      () => this.#count(name, 'database system is ready to accept connections') > before,
      'Postgres does not start',
    );
  }

  /** Like `pg_ctl stop`: clients are disconnected. `immediate` leaves its files as after a crash. */
  async stopPostgres(mode = 'fast') {
    spawnSync('runuser', [
      ...['-u', 'postgres', '--', join(postgresFolder() ?? '', 'pg_ctl')],
      ...['-D', join(this.folder, 'postgres'), '-m', mode, 'stop'],
    ]);
    await this.kill('postgres', 'SIGKILL');
  }

  createKey(name, ...flags) {
    const made = this.#command(
      'keys',
      'create',
      '--name',
      name,
      '--tier',
      'normal',
      '--database',
      this.database,
      ...flags,
    );
    const key = /\bcl-\S+/.exec(made)?.[0];
    if (key === undefined) throw new Error(`no key was made: ${made}`);
    return key;
  }

  /** @returns {{ requests: number, promptTokens: number, completionTokens: number }[]} by day; of one key where it is given */
  usage(key) {
    const whose = key === undefined ? [] : ['--key', key];
    return JSON.parse(this.#command('usage', '--database', this.database, '--json', ...whose));
  }

  #command(...args) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
      encoding: 'utf8',
      env: { ...process.env, HOME: this.folder },
    });
    if (status !== 0) throw new Error(`chairlift ${args[0]}: ${stderr}`);
    return stdout;
  }

  async startNode(name, ...flags) {
    this.addHost(name);
    await this.runNode(name, ...flags);
  }

  runNode(name, ...flags) {
    const joined = ['--join', this.servers.join(','), '--nats-user', USER, '--node', name];
    return this.runServer(name, ...joined, ...flags);
  }

  async runServer(name, ...flags) {
    const home = join(this.folder, `${name}-home`);
    mkdirSync(home, { recursive: true });
    const ready = /listens on|works for its fleet/;
    const before = this.#count(name, ready);
    this.run(name, process.execPath, [program, 'serve', '--host', this.address(name), ...flags], {
      HOME: home,
      ...(flags.includes('--join') ? { CHAIRLIFT_NATS_PASSWORD: PASSWORD } : {}),
    });
    await until(() => this.#count(name, ready) > before, `${name} does not start`);
  }

  processorSeconds(name) {
    const { space } = this.#host(name);
    const { stdout } = spawnSync('ip', ['netns', 'pids', space], { encoding: 'utf8' });
    return stdout
      .split('\n')
      .filter((pid) => pid !== '')
      .reduce((sum, pid) => sum + processorSeconds(pid), 0);
  }

  async stop() {
    this.#stopped = true;
    await Promise.all([...this.#hosts.keys()].map((name) => this.kill(name)));
    for (const { space } of this.#hosts.values()) spawnSync('ip', ['netns', 'delete', space]);
    spawnSync('ip', ['link', 'delete', this.#bridge]);
    rmSync(this.folder, { recursive: true, force: true });
  }

  #host(name) {
    const host = this.#hosts.get(name);
    if (host === undefined) throw new Error(`there is no host ${name}`);
    return host;
  }

  #names(start) {
    return [...this.#hosts.keys()].filter((name) => name.startsWith(start));
  }

  #says(name, text) {
    return this.#count(name, text) > 0;
  }

  #count(name, text) {
    const file = this.log(name);
    return existsSync(file) ? readFileSync(file, 'utf8').split(text).length - 1 : 0;
  }
}

/** 0 for a process that is gone. */
function processorSeconds(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // After the name, which may have spaces: user and system time, in hundredths of a second.
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13);
    return (Number(user) + Number(system)) / 100;
  } catch {
    return 0;
  }
}

/** @param {() => boolean} isTrue */
async function until(isTrue, problem) {
  const endMs = Date.now() + START_MS;
  while (!isTrue()) {
    if (Date.now() > endMs) throw new Error(problem);
    await sleep(50);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await tryOut();

async function tryOut() {
  const refusal = labRefusal();
  if (refusal !== undefined) throw new Error(refusal);
  const lab = new FleetLab();
  const end = async () => {
    await lab.stop();
    process.exit(0);
  };
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  try {
    await lab.startNats();
    for (const name of ['worker1', 'worker2', 'worker3'])
      await lab.startNode(name, '--worker', '--threads', '1');
    for (const name of ['gateway1', 'gateway2']) await lab.startNode(name, '--gateway', '--allow-anonymous');
  } catch (error) {
    await lab.stop();
    throw error;
  }
  process.stdout.write(
    `gateways: ${lab.url('gateway1')} and ${lab.url('gateway2')}; logs: ${lab.folder}; Ctrl-C ends it\n`,
  );
}
