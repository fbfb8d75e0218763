// A rank of every worker for every conversation, the same at all gateways: whoever joins or leaves moves only its own share.

/** 32 bits of a text. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return scatter(hash);
}

/** The higher the better. */
export function rank(conversationHash: number, workerHash: number): number {
  return scatter(conversationHash ^ Math.imul(workerHash, 0x9e3779b1)) >>> 0;
}

function scatter(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x7feb352d);
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
  return bits ^ (bits >>> 16);
}
