// Images that go with messages. Conversations hold small pictures of them; the images themselves lie in this browser's database,
// which has room for them where the storage of conversations has none.

import { type AttachedImage, randomId, type Turn } from './conversation.ts';

/** Longer sides are made this long: no model reads more of a picture. */
const MOST_PIXELS = 2048;
const SMALL_PIXELS = 160;
/** Files below it go as they are, where models read their format. */
const MOST_FILE_BYTES = 4 << 20;
const MOST_GIVEN_BYTES = 64 << 20;
const SENT_AS_THEY_ARE = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];

/** By its type, or by its first bytes: systems go by a name, which may be wrong. An SVG is a text. */
export async function isImage(file: File): Promise<boolean> {
  if (file.type.startsWith('image/')) return file.type !== 'image/svg+xml';
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  return /^(\x89PNG\r\n|\xff\xd8\xff|GIF8|RIFF.{4}WEBP)/s.test(head);
}

/** The image, or why it is none. It is kept once it is said. */
export async function readImage(file: File): Promise<AttachedImage | string> {
  if (file.size > MOST_GIVEN_BYTES) return `${file.name} is too large.`;
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    return `${file.name} is no image that this browser reads.`;
  }
  const { width, height } = bitmap;
  const fits = Math.max(width, height) <= MOST_PIXELS && file.size <= MOST_FILE_BYTES;
  const isSentAsIs = fits && SENT_AS_THEY_ARE.includes(file.type);
  const url = isSentAsIs ? await dataUrlOf(file) : drawn(bitmap, MOST_PIXELS, 'image/jpeg', 0.9);
  const thumbnail = drawn(bitmap, SMALL_PIXELS, 'image/jpeg', 0.7);
  bitmap.close();
  const id = randomId();
  known.set(id, url);
  return { id, name: file.name || 'image', thumbnail, width, height };
}

function drawn(bitmap: ImageBitmap, most: number, type: string, quality: number): string {
  const scale = Math.min(1, most / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  // Without it transparency would become black.
  context.fillStyle = '#fff';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL(type, quality);
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Of this tab; the rest is in the database, where the browser gives one. */
const known = new Map<string, string>();

/** By id; images that are gone are missing. */
export async function picturesOf(turns: readonly Turn[]): Promise<ReadonlyMap<string, string>> {
  for (const id of imageIds(turns)) await pictureOf(id);
  return known;
}

export async function pictureOf(id: string): Promise<string | undefined> {
  if (known.has(id)) return known.get(id);
  const url = await inStore<string | undefined>('readonly', (store) => store.get(id));
  if (typeof url === 'string') known.set(id, url);
  return known.get(id);
}

export function forgetPictures(turns: readonly Turn[]): void {
  for (const id of imageIds(turns)) {
    known.delete(id);
    void inStore('readwrite', (store) => store.delete(id));
  }
}

export function imageIds(turns: readonly Turn[]): string[] {
  return turns.flatMap(({ said }) => (said.by === 'user' ? (said.images ?? []).map(({ id }) => id) : []));
}

export function keepPictures(turns: readonly Turn[]): void {
  for (const id of imageIds(turns)) {
    const url = known.get(id);
    if (url !== undefined) void inStore('readwrite', (store) => store.put(url, id));
  }
}

/** By id, of a conversation that is imported; those that are here already stay as they are. */
export async function takePictures(
  turns: readonly Turn[],
  images: ReadonlyMap<string, string>,
): Promise<void> {
  const here = await picturesOf(turns);
  for (const id of imageIds(turns)) {
    const url = images.get(id);
    if (url !== undefined && !here.has(id)) known.set(id, url);
  }
  keepPictures(turns);
}

const DATABASE = 'chairlift';
const STORE = 'images';

/** Undefined where the browser gives no database, or has no room. */
function inStore<Result>(
  mode: IDBTransactionMode,
  ask: (store: IDBObjectStore) => IDBRequest,
): Promise<Result | undefined> {
  return new Promise((resolve) => {
    const none = () => resolve(undefined);
    try {
      const opening = indexedDB.open(DATABASE, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
      opening.onerror = none;
      opening.onsuccess = () => {
        const database = opening.result;
        const transaction = database.transaction(STORE, mode);
        const request = ask(transaction.objectStore(STORE));
        transaction.oncomplete = () => {
          database.close();
          resolve(request.result as Result);
        };
        transaction.onabort = none;
      };
    } catch {
      none();
    }
  });
}
