// Settings of images: the hosts that they are fetched from, and projector files of models.

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Config, ConfigError } from '../config.ts';
import { parseModelPath } from '../pool/model-names.ts';
import { messageOf } from '../runtime/error-message.ts';
import { parseImageHost } from '../upstream/image-hosts.ts';

export function readImageHosts({ imageHosts }: Pick<Config, 'imageHosts'>): readonly string[] {
  for (const text of imageHosts) {
    try {
      parseImageHost(text);
    } catch (error) {
      throw new ConfigError(`--image-hosts: ${messageOf(error)}`);
    }
  }
  return imageHosts;
}

/** One without a name is the default model's. */
export function chosenProjectors({ mmproj }: Pick<Config, 'mmproj'>) {
  const chosen = new Map<string | undefined, string>();
  for (const text of mmproj) {
    const { name, path } = parseModelPath(text);
    if (!existsSync(path)) throw new ConfigError(`--mmproj: there is no file ${path}`);
    chosen.set(name, resolve(path));
  }
  const find = (name: string, isDefault: boolean) =>
    chosen.get(name) ?? (isDefault ? chosen.get(undefined) : undefined);
  return Object.assign(find, { names: [...chosen.keys()].filter((name) => name !== undefined) });
}
