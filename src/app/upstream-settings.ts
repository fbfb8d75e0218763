// The upstreams that the configuration names, and the local models that theirs stand in for.

import { readFile } from 'node:fs/promises';
import { type Config, ConfigError } from '../config.ts';
import type { UpstreamConfig } from '../config-upstreams.ts';
import type { ModelEntry } from '../pool/model-pool.ts';
import { messageOf } from '../runtime/error-message.ts';
import { anthropicProtocol } from '../upstream/anthropic-protocol.ts';
import { openaiProtocol } from '../upstream/openai-protocol.ts';
import { Upstream, type UpstreamModel } from '../upstream/upstream.ts';
import { UpstreamError } from '../upstream/upstream-error.ts';
import { type Fallback, Upstreams } from '../upstream/upstreams.ts';

const protocols = { openai: openaiProtocol, anthropic: anthropicProtocol } as const;

/** Undefined where there are none. */
export function openUpstreams({ upstreams: given }: Pick<Config, 'upstreams'>): Upstreams | undefined {
  if (given.length === 0) return undefined;
  const models = new Map<string, UpstreamModel>();
  const fallbacks = new Map<string, Fallback>();
  for (const config of given) {
    const upstream = openUpstream(config);
    for (const { name: remoteName, as: name, fallbackFor, waitSeconds, maxTokens } of config.models) {
      if (models.has(name))
        throw refusal(config, `there are two models named '${name}'; give one another name with as`);
      const model = { name, remoteName, maxTokens, upstream };
      models.set(name, model);
      for (const local of fallbackFor) {
        if (fallbacks.has(local)) throw refusal(config, `'${local}' has two fallbacks`);
        fallbacks.set(local, { model, waitMs: waitSeconds === undefined ? undefined : waitSeconds * 1000 });
      }
    }
  }
  return new Upstreams([...models.values()], fallbacks);
}

/** Throws where a name is taken. Returns the names of models that an upstream would stand in for, and that are not here. */
export function checkUpstreams(upstreams: Upstreams, entries: readonly ModelEntry[]): readonly string[] {
  const local = new Set(entries.flatMap(({ name, aliases }) => [name, ...aliases]));
  const taken = upstreams.models.find(({ name }) => local.has(name));
  if (taken !== undefined) {
    const message = `upstreams: ${taken.upstream.name}: a model here is called '${taken.name}', too; give it another name with as`;
    throw new ConfigError(message);
  }
  return upstreams.replaced.filter((name) => !local.has(name) && name !== 'default');
}

function openUpstream(config: UpstreamConfig): Upstream {
  const { name, url, protocol, timeoutSeconds, allowHttp, parameters, lengthField, maxRequests } = config;
  try {
    return new Upstream({
      name,
      url,
      key: keyOf(config),
      protocol: protocols[protocol],
      timeoutMs: timeoutSeconds * 1000,
      allowHttp,
      parameters,
      lengthField,
      maxRequests,
    });
  } catch (error) {
    throw refusal(config, messageOf(error));
  }
}

/** A file is read for each request, so that its key may change while the server runs. */
function keyOf(config: UpstreamConfig): () => Promise<string | undefined> {
  const { key, keyFile } = config;
  if (key !== undefined && !isKey(key)) throw new Error('its key has characters that no header can hold');
  if (keyFile === undefined) return async () => key;
  return async () => {
    const text = await readFile(keyFile, 'utf8').catch(() => '');
    if (isKey(text.trim())) return text.trim();
    throw new UpstreamError('unauthorized', 'cannot be asked: the file with its key cannot be read');
  };
}

function isKey(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

function refusal({ name }: UpstreamConfig, problem: string): ConfigError {
  return new ConfigError(`upstreams: ${name}: ${problem}`);
}
