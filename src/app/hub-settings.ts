// Which hub models are pulled from: what is given, else HF_ENDPOINT and HF_TOKEN of the environment, else the public one.

import { ConfigError, processInputs } from '../config.ts';
import { HUB_URL } from '../pool/download.ts';
import type { Hub } from '../pool/hub.ts';

interface HubOptions {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
}

export function hubSettings({ url: wanted, token }: HubOptions = {}): Hub {
  const { environment } = processInputs({});
  const url = wanted ?? (environment.HF_ENDPOINT || HUB_URL);
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : '')) {
    const name = wanted === undefined ? 'HF_ENDPOINT' : '--hub';
    throw new ConfigError(`${name}: ${url} is no address; give one such as ${HUB_URL}`);
  }
  const secret = token ?? environment.HF_TOKEN;
  return { url: url.replace(/\/+$/, ''), ...(secret ? { token: secret } : {}) };
}
