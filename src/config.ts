// One frozen configuration from flags over environment over a config file over defaults. The only file that
// reads the environment.

import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import {
  type ConfigOption,
  configOptions,
  exclusiveOptions,
  flagOf,
  type OptionKind,
  type OptionName,
  optionNames,
  variableOf,
} from './config-options.ts';
import { parseUpstreams, type UpstreamConfig } from './config-upstreams.ts';
import { messageOf } from './runtime/error-message.ts';

type ValueOf<Kind extends OptionKind> = Kind extends { type: 'upstreams' }
  ? readonly UpstreamConfig[]
  : Kind extends { type: 'list' }
    ? readonly string[]
    : Kind extends { type: 'switch' }
      ? boolean
      : Kind extends { type: 'integer' | 'bytes' | 'seconds' | 'part' }
        ? number
        : Kind extends { type: 'choice'; values: readonly (infer Value)[] }
          ? Value
          : string;

type Options = typeof configOptions;

/** Undefined where it is unset and has no default. */
export type Config = {
  readonly [Name in OptionName]:
    | ValueOf<Options[Name]['kind']>
    | (Options[Name] extends { default: unknown } ? never : undefined);
};

type ConfigSource = 'flag' | 'environment' | 'file' | 'default';

export interface ResolvedConfig {
  readonly config: Config;
  readonly sources: Readonly<Record<OptionName, ConfigSource>>;
  readonly file: string | undefined;
}

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

export interface ConfigInputs {
  /** From the command line: texts, true for switches, lists of texts. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly home: string;
}

export function processInputs(flags: Readonly<Record<string, unknown>>): ConfigInputs {
  return { flags, environment: process.env, home: homedir() };
}

/** Reads variables that are meant for this process alone: its children do not get them. */
export function takeVariables<Name extends string>(
  names: readonly Name[],
): Readonly<Record<Name, string | undefined>> {
  const taken = {} as Record<Name, string | undefined>;
  for (const name of names) {
    taken[name] = process.env[name];
    delete process.env[name];
  }
  return taken;
}

export function resolveConfig(inputs: ConfigInputs): ResolvedConfig {
  const { path, content } = readConfigFile(inputs);
  const values: Record<string, unknown> = {};
  const given: Partial<Record<OptionName, Given>> = {};
  for (const name of optionNames) {
    const option: ConfigOption = configOptions[name];
    const [source, where, raw] = firstGiven(name, inputs, path, content);
    given[name] = { source, where };
    values[name] = raw === undefined ? option.default : parse(option.kind, raw, where);
  }
  values.upstreams = withKeys(values.upstreams as readonly UpstreamConfig[], inputs.environment);
  const found = given as Record<OptionName, Given>;
  for (const name of overruled(found)) {
    values[name] = undefined;
    found[name] = { source: 'default', where: name };
  }
  const sources = Object.fromEntries(optionNames.map((name) => [name, found[name].source]));
  return {
    config: Object.freeze(values) as unknown as Config,
    sources: sources as Record<OptionName, ConfigSource>,
    file: path,
  };
}

/** With the keys that environment variables hold. */
function withKeys(
  upstreams: readonly UpstreamConfig[],
  environment: ConfigInputs['environment'],
): readonly UpstreamConfig[] {
  return upstreams.map((one) => {
    if (one.keyVariable === undefined) return one;
    const key = environment[one.keyVariable];
    if (key) return { ...one, key };
    throw new ConfigError(`upstreams: ${one.name}: the variable ${one.keyVariable} is not set`);
  });
}

interface Given {
  readonly source: ConfigSource;
  readonly where: string;
}

/** Highest first. */
const precedence: readonly ConfigSource[] = ['flag', 'environment', 'file', 'default'];

/** Of exclusive settings, those that another from a closer source overrules. */
function overruled(found: Readonly<Record<OptionName, Given>>): OptionName[] {
  return exclusiveOptions.flatMap(([first, second]) => {
    const [one, other] = [found[first], found[second]];
    if (one.source === 'default' || other.source === 'default') return [];
    if (one.source === other.source) {
      throw new ConfigError(`${one.where} and ${other.where} exclude each other: give one of them`);
    }
    return precedence.indexOf(one.source) < precedence.indexOf(other.source) ? [second] : [first];
  });
}

/** Kubernetes sets CHAIRLIFT_PORT=tcp://10.0.0.1:80 for a service named chairlift. That is not our setting. */
const SERVICE_LINK = /^(tcp|udp|sctp):\/\//;

function firstGiven(
  name: OptionName,
  { flags, environment }: ConfigInputs,
  path: string | undefined,
  content: Readonly<Record<string, unknown>>,
): [source: ConfigSource, where: string, raw: unknown] {
  if (flags[name] !== undefined) return ['flag', flagOf(name), flags[name]];
  const variable = variableOf(name);
  const said = environment[variable];
  if (said !== undefined && said !== '' && !(variable.endsWith('_PORT') && SERVICE_LINK.test(said))) {
    return ['environment', variable, said];
  }
  const { variables = [] }: ConfigOption = configOptions[name];
  const other = variables.find((one) => environment[one]);
  if (other !== undefined) return ['environment', other, environment[other]];
  if (content[name] !== undefined) return ['file', `${path}: ${name}`, content[name]];
  return ['default', name, undefined];
}

/** `--config`, else CHAIRLIFT_CONFIG, else ~/.chairlift/config.json where it exists. */
function readConfigFile({ flags, environment, home }: ConfigInputs): {
  path: string | undefined;
  content: Readonly<Record<string, unknown>>;
} {
  const named = flags.config ?? environment.CHAIRLIFT_CONFIG;
  const path = typeof named === 'string' && named !== '' ? named : join(home, '.chairlift', 'config.json');
  if (!existsSync(path)) {
    if (named === undefined || named === '') return { path: undefined, content: {} };
    throw new ConfigError(`${path}: the config file does not exist`);
  }
  const content = parseJson(path);
  const unknown = Object.keys(content).find((name) => !(name in configOptions));
  if (unknown === undefined) return { path, content };
  throw new ConfigError(`${path}: ${unknown} is no setting; chairlift config lists them all`);
}

function parseJson(path: string): Record<string, unknown> {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`${path}: cannot be read as JSON: ${messageOf(error)}`);
  }
  if (typeof content === 'object' && content !== null && !Array.isArray(content)) {
    return content as Record<string, unknown>;
  }
  throw new ConfigError(`${path}: must hold one JSON object`);
}

function parse(kind: OptionKind, raw: unknown, where: string): unknown {
  switch (kind.type) {
    case 'text':
      if (typeof raw === 'string' && raw !== '') return raw;
      throw new ConfigError(`${where}: give a text`);
    case 'list':
      return listParsers[kind.of ?? 'texts'](raw, where);
    case 'switch':
      return parseSwitch(raw, where);
    case 'choice':
      if (kind.values.includes(String(raw))) return String(raw);
      throw new ConfigError(`${where}: give one of ${kind.values.join(', ')}, not ${raw}`);
    case 'integer':
      return parseInteger(kind, raw, where);
    case 'bytes':
      return parseBytes(raw, where);
    case 'seconds':
      return parseSeconds(raw, where);
    case 'part':
      return parsePart(raw, where, kind.orNone === true);
    case 'upstreams':
      return readUpstreams(raw, where);
  }
}

function readUpstreams(raw: unknown, where: string): readonly UpstreamConfig[] {
  try {
    return parseUpstreams(raw, secondsOf);
  } catch (error) {
    const message = messageOf(error);
    throw new ConfigError(`${where}${message.startsWith('[') ? '' : ': '}${message}`);
  }
}

function parsePart(raw: unknown, where: string, orNone: boolean): number {
  const value = typeof raw === 'string' && raw.trim() !== '' ? Number(raw) : raw;
  if (typeof value === 'number' && (value > 0 || (orNone && value === 0)) && value <= 1) return value;
  const range = orNone ? 'from 0 to 1' : 'above 0 and up to 1';
  throw new ConfigError(`${where}: give a number ${range}, such as 0.25, not ${raw}`);
}

function parseList(raw: unknown, where: string): readonly string[] {
  const items = typeof raw === 'string' ? raw.split(',') : raw;
  if (Array.isArray(items) && items.every((item) => typeof item === 'string')) {
    return Object.freeze(items.map((item) => item.trim()).filter((item) => item !== ''));
  }
  throw new ConfigError(`${where}: give a list of texts`);
}

const listParsers = {
  texts: parseList,
  addresses: parseAddresses,
  origins: parseOrigins,
  servers: parseSeparated,
} as const;

/** For items without commas: commas separate them within an array, too. */
function parseSeparated(raw: unknown, where: string): readonly string[] {
  return parseList(parseList(raw, where).join(','), where);
}

function parseOrigins(raw: unknown, where: string): readonly string[] {
  const items = parseList(raw, where).map((item) => item.replace(/\/$/, '').toLowerCase());
  const isOrigin = (item: string) => /^(\*|localhost|[a-z][a-z\d+.-]*:\/\/[^/\s]+)$/.test(item);
  const unknown = items.find((item) => !isOrigin(item));
  if (unknown === undefined) return Object.freeze(items);
  throw new ConfigError(
    `${where}: give origins such as https://chat.example, localhost, or *, not ${unknown}`,
  );
}

function parseAddresses(raw: unknown, where: string): readonly string[] {
  const items = parseSeparated(raw, where);
  const unknown = items.find((item) => item !== 'loopback' && !isAddress(item));
  if (unknown === undefined) return items;
  throw new ConfigError(
    `${where}: give IP addresses, networks such as 10.0.0.0/8, or loopback, not ${unknown}`,
  );
}

function isAddress(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

function parseSwitch(raw: unknown, where: string): boolean {
  if (raw === true || raw === 'true' || raw === '1' || raw === 'on') return true;
  if (raw === false || raw === 'false' || raw === '0' || raw === 'off') return false;
  throw new ConfigError(`${where}: give true or false, not ${raw}`);
}

function parseInteger(
  { least, most = Number.MAX_SAFE_INTEGER }: { least: number; most?: number },
  raw: unknown,
  where: string,
): number {
  const value = typeof raw === 'string' && raw.trim() !== '' ? Number(raw) : raw;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most)
    return value;
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`;
  throw new ConfigError(`${where}: give a whole number ${range}, not ${raw}`);
}

const units: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
  ki: 2 ** 10,
  mi: 2 ** 20,
  gi: 2 ** 30,
  ti: 2 ** 40,
};

function parseBytes(raw: unknown, where: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?$/i.exec(String(raw).trim());
  const unit = units[(match?.[2] ?? '').toLowerCase()];
  const value = match === null || unit === undefined ? Number.NaN : Math.round(Number(match[1]) * unit);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new ConfigError(`${where}: give a size such as 512MB or 4GiB, not ${raw}`);
}

/** A hundred years: anything longer is a mistake. */
const LONGEST_SECONDS = 100 * 365.25 * 86_400;

function parseSeconds(raw: unknown, where: string): number {
  try {
    return secondsOf(raw);
  } catch (error) {
    throw new ConfigError(`${where}: ${messageOf(error)}`);
  }
}

function secondsOf(raw: unknown): number {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/.exec(String(raw).trim());
  const scale = { ms: 1e-3, s: 1, m: 60, h: 3600, d: 86_400 }[match?.[2] ?? 's'];
  const value = match === null || scale === undefined ? Number.NaN : Number(match[1]) * scale;
  if (value <= LONGEST_SECONDS) return value;
  if (value > LONGEST_SECONDS) throw new Error(`${raw} is more than 100 years`);
  throw new Error(`give a time such as 90s, 10m, 1h or 30d, not ${raw}`);
}
