// Blocks on disk, of all models, while no engine has them open.

import { join } from 'node:path';
import { KEY_FILE, readStoreKey } from '../block-store/key-file.ts';
import { nodeFiles } from '../block-store/node-files.ts';
import { removeTenant } from '../block-store/removal.ts';
import { Sealing } from '../block-store/sealing.ts';

/** How many blocks of the tenant there were. `keyFile`: the store's, where it is not in the folder. */
export function removeStored(folder: string, tenant: string, keyFile = join(folder, KEY_FILE)): number {
  const key = readStoreKey(nodeFiles, keyFile);
  // Without the key nobody can read what is there.
  return key === undefined ? 0 : removeTenant(nodeFiles, folder, new Sealing(key), tenant);
}
