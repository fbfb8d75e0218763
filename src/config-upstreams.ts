// The setting `upstreams`: a list of objects, in the config file or as JSON in a flag or a variable.

import { messageOf } from './runtime/error-message.ts';

export interface UpstreamConfig {
  readonly name: string;
  readonly url: string;
  readonly protocol: 'openai' | 'anthropic';
  /** At most one of the three. */
  readonly key: string | undefined;
  /** The environment variable that has the key. */
  readonly keyVariable: string | undefined;
  /** Read for each request. */
  readonly keyFile: string | undefined;
  readonly models: readonly UpstreamModelConfig[];
  readonly timeoutSeconds: number;
  readonly allowHttp: boolean;
  readonly parameters: readonly string[];
  readonly lengthField: 'max_tokens' | 'max_completion_tokens';
  readonly maxRequests: number | undefined;
}

export interface UpstreamModelConfig {
  readonly name: string;
  /** What it is called here. */
  readonly as: string;
  /** Local models that it stands in for. */
  readonly fallbackFor: readonly string[];
  readonly waitSeconds: number | undefined;
  /** How long its answers may be where a request does not say. */
  readonly maxTokens: number | undefined;
}

/** Reads one value; throws an Error that says what is wrong with it. */
type Reader<Value> = (value: unknown) => Value;

type Given = Readonly<Record<string, unknown>>;

const DEFAULT_TIMEOUT_SECONDS = 120;

/** `seconds` reads times as other settings are read. Errors name the place within the list. */
export function parseUpstreams(raw: unknown, seconds: Reader<number>): readonly UpstreamConfig[] {
  const list = typeof raw === 'string' ? parsed(raw) : raw;
  if (!Array.isArray(list))
    throw new Error('give a list of upstreams, each an object with name, url and models');
  const upstreams = list.map((one, at) => placed(`[${at}]`, () => upstreamOf(one, seconds)));
  const names = upstreams.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`there are two upstreams named ${twice}`);
  return Object.freeze(upstreams);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser would quote a part of it, which may be a key.
    throw new Error('cannot be read as JSON');
  }
}

function upstreamOf(given: unknown, seconds: Reader<number>): UpstreamConfig {
  const fields = objectOf(given, [
    ...['name', 'url', 'protocol', 'key', 'keyVariable', 'keyFile', 'models', 'timeout'],
    ...['allowHttp', 'parameters', 'lengthField', 'maxRequests'],
  ]);
  const field = <Value>(name: string, read: Reader<Value>, otherwise?: Value): Value =>
    placed(`.${name}`, () =>
      fields[name] === undefined && otherwise !== undefined ? otherwise : read(fields[name]),
    );
  const optional = <Value>(name: string, read: Reader<Value>): Value | undefined =>
    fields[name] === undefined ? undefined : field(name, read);
  const keys = ['key', 'keyVariable', 'keyFile'].filter((name) => fields[name] !== undefined);
  if (keys.length > 1) throw new Error(`: ${keys.join(' and ')} exclude each other: give one of them`);
  const models = field('models', (value) => listOf(value, (one) => modelOf(one, seconds)));
  if (models.length === 0) throw new Error('.models: name at least one model');
  return {
    name: field('name', nameOf),
    url: field('url', text),
    protocol: field('protocol', oneOf('openai', 'anthropic'), 'openai'),
    key: optional('key', text),
    keyVariable: optional('keyVariable', text),
    keyFile: optional('keyFile', text),
    models,
    timeoutSeconds: field('timeout', positive(seconds), DEFAULT_TIMEOUT_SECONDS),
    allowHttp: field('allowHttp', flag, false),
    parameters: field('parameters', (value) => listOf(value, text), []),
    lengthField: field('lengthField', oneOf('max_tokens', 'max_completion_tokens'), 'max_tokens'),
    maxRequests: optional('maxRequests', count),
  };
}

function modelOf(given: unknown, seconds: Reader<number>): UpstreamModelConfig {
  if (typeof given === 'string') return modelOf({ name: given }, seconds);
  const fields = objectOf(given, ['name', 'as', 'fallbackFor', 'wait', 'maxTokens']);
  const name = placed('.name', () => text(fields.name));
  const fallbackFor = placed('.fallbackFor', () => listOf(fields.fallbackFor ?? [], text));
  if (fields.wait !== undefined && fallbackFor.length === 0) throw new Error('.wait: needs fallbackFor');
  return {
    name,
    as: fields.as === undefined ? localName(name) : placed('.as', () => localName(fields.as)),
    fallbackFor,
    waitSeconds: fields.wait === undefined ? undefined : placed('.wait', () => seconds(fields.wait)),
    maxTokens:
      fields.maxTokens === undefined ? undefined : placed('.maxTokens', () => count(fields.maxTokens)),
  };
}

/** Errors begin with the place where they are. */
function placed<Value>(where: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    const message = messageOf(error);
    throw new Error(/^[.[:]/.test(message) ? `${where}${message}` : `${where}: ${message}`);
  }
}

function objectOf(value: unknown, known: readonly string[]): Given {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('give an object');
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`.${unknown}: is no setting; there are ${known.join(', ')}`);
  return value as Given;
}

function listOf<Value>(value: unknown, read: Reader<Value>): readonly Value[] {
  if (!Array.isArray(value)) throw new Error('give a list');
  return value.map((one, at) => placed(`[${at}]`, () => read(one)));
}

function text(value: unknown): string {
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw new Error('give a text');
}

/** Two names are never those of a model elsewhere. */
function localName(value: unknown): string {
  const name = text(value);
  if (name !== '*' && name !== 'default') return name;
  throw new Error(`'${name}' means models that are here; give another name with as`);
}

/** It is sent in a header. */
function nameOf(value: unknown): string {
  if (typeof value === 'string' && /^[\w.:-]{1,64}$/.test(value)) return value;
  throw new Error('give 1 to 64 letters, digits, or any of _ . : -');
}

function flag(value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw new Error('give true or false');
}

function count(value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw new Error('give a whole number from 1 on');
}

function positive(read: Reader<number>): Reader<number> {
  return (value) => {
    const number = read(value);
    if (number > 0) return number;
    throw new Error('give a time above 0');
  };
}

function oneOf<Value extends string>(...values: readonly Value[]): Reader<Value> {
  return (value) => {
    const found = values.find((one) => one === value);
    if (found !== undefined) return found;
    throw new Error(`give one of ${values.join(', ')}`);
  };
}
