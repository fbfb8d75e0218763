// Deletes what is kept of a key's KV blocks once it is revoked, by whichever process: this server may have no request for hours.

import type { ModelPool } from '../pool/model-pool.ts';
import type { KeyRing } from '../store/key-ring.ts';

const LOOK_MS = 5000;

/** Until what is returned is called: it looks once more, and resolves before blocks in memory are written down for good. */
export function followRevokedKeys(
  keys: Pick<KeyRing, 'follow' | 'onRevoked'>,
  pool: Pick<ModelPool, 'removeTenant'>,
): () => Promise<void> {
  keys.onRevoked = (keyId) => pool.removeTenant?.(keyId);
  const timer = setInterval(() => void keys.follow(), LOOK_MS).unref();
  return async () => {
    clearInterval(timer);
    await keys.follow();
  };
}
