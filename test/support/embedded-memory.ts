// What the embedded model takes of a server's memory, with its MTP head: for tests of servers that have just so much.

import { openLocalModel } from '../../src/pool/local-model.ts';
import { firstBytes } from '../../src/pool/memory-ledger.ts';
import { planMemory } from '../../src/pool/model-memory.ts';
import { embeddedModelPath } from './embedded-model.ts';

const { spec, weights, close } = openLocalModel(embeddedModelPath, { mtp: true });
const memory = planMemory(spec, weights, 1e9, { kvType: 'f16' });
close();

/** Of all matrices and vectors, and of one KV block. */
export const { weightBytes, blockBytes } = memory;
/** Of the model once it is loaded, with the KV blocks that it starts with. */
export const startBytes = firstBytes(memory);
