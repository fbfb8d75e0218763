// All conversations and the answers that are being streamed. It outlives the chat view, so that an answer goes on while
// another view is open.

import type { Server } from '../access/server.ts';
import { Observable } from '../observable.ts';
import { AnswerStream } from './answer-stream.ts';
import { chatBody } from './chat-body.ts';
import {
  type Conversation,
  type LaneSettings,
  newConversation,
  randomId,
  type Said,
  type Turn,
  withAnswer,
} from './conversation.ts';
import {
  followOtherTabs,
  forgetConversation,
  keepConversation,
  readConversations,
} from './kept-conversations.ts';

/** Between two renderings of a growing answer; more where rendering takes long. */
const DRAW_MS = 40;
const KEEP_MS = 2000;

interface Running {
  readonly conversationId: string;
  readonly turnId: string;
  readonly lane: number;
  readonly stream: AnswerStream;
  replaced: boolean;
}

interface RoomState {
  readonly conversations: readonly Conversation[];
  /** The browser's storage is full, or refused. */
  readonly unkept: boolean;
}

export class ChatRoom extends Observable<RoomState> {
  readonly #server: Server;
  readonly #running = new Set<Running>();
  readonly #unfollow: () => void;

  constructor(server: Server) {
    super({ conversations: readConversations(), unkept: false });
    this.#server = server;
    this.#unfollow = followOtherTabs(
      (conversation) => this.#takeFromTab(conversation),
      (id) => this.#forgetAsTab(id),
    );
  }

  find(id: string | undefined): Conversation | undefined {
    return this.value.conversations.find((one) => one.id === id);
  }

  open(lanes?: readonly LaneSettings[]): Conversation {
    const conversation = newConversation(lanes);
    this.set({ ...this.value, conversations: [conversation, ...this.value.conversations] });
    return conversation;
  }

  remove(id: string): void {
    this.stop(id);
    forgetConversation(id);
    this.set({ ...this.value, conversations: this.value.conversations.filter((one) => one.id !== id) });
  }

  setLanes(id: string, lanes: readonly LaneSettings[]): void {
    this.#change(id, (conversation) => ({ ...conversation, lanes }));
  }

  /** Asks every lane; with results of tools, the one that called them. */
  say(id: string, said: Said): void {
    const turn: Turn = { id: randomId(), said, answers: [] };
    this.#change(id, (one) => ({ ...one, changedMs: Date.now(), turns: [...one.turns, turn] }));
    const lanes = this.find(id)?.lanes ?? [];
    for (const lane of lanes.keys()) {
      if (said.by === 'user' || said.lane === lane) this.#answer(id, turn.id, lane);
    }
  }

  /** Later turns are deleted: they answered something else. */
  edit(id: string, turnId: string, text: string): void {
    this.stop(id);
    this.#change(id, (one) => ({ ...one, turns: one.turns.slice(0, indexOf(one, turnId)) }));
    this.say(id, { by: 'user', text });
  }

  retry(id: string, turnId: string, lane: number): void {
    this.stop(id, lane);
    for (const running of this.#running) {
      if (running.turnId === turnId && running.lane === lane) running.replaced = true;
    }
    this.#change(id, (one) => ({ ...one, turns: one.turns.slice(0, indexOf(one, turnId) + 1) }));
    this.#answer(id, turnId, lane);
  }

  stop(id: string, lane?: number): void {
    for (const running of this.#running) {
      if (running.conversationId === id && (lane === undefined || running.lane === lane))
        running.stream.stop();
    }
  }

  isAnswering(id: string): boolean {
    return [...this.#running].some(({ conversationId }) => conversationId === id);
  }

  close(): void {
    this.#unfollow();
    for (const { stream } of this.#running) stream.stop();
  }

  /** Ignored while this tab streams an answer of it. */
  #takeFromTab(conversation: Conversation): void {
    const { id } = conversation;
    if (this.isAnswering(id)) return;
    const { conversations } = this.value;
    const isKnown = conversations.some((one) => one.id === id);
    this.set({
      ...this.value,
      conversations: isKnown
        ? conversations.map((one) => (one.id === id ? conversation : one))
        : [conversation, ...conversations],
    });
  }

  #forgetAsTab(id: string): void {
    if (this.isAnswering(id)) return;
    this.set({ ...this.value, conversations: this.value.conversations.filter((one) => one.id !== id) });
  }

  #answer(conversationId: string, turnId: string, lane: number): void {
    const asked = this.find(conversationId);
    const settings = asked?.lanes[lane];
    if (asked === undefined || settings === undefined) return;
    const stream = new AnswerStream(settings.model);
    const running: Running = { conversationId, turnId, lane, stream, replaced: false };
    this.#running.add(running);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let keptMs = performance.now();
    let pauseMs = DRAW_MS;
    const draw = () => {
      timer = undefined;
      const beganMs = performance.now();
      const keeps = beganMs - keptMs > KEEP_MS;
      if (keeps) keptMs = beganMs;
      this.#show(running, keeps);
      // A slow machine renders less often, so that it still reacts to the keyboard.
      setTimeout(() => {
        pauseMs = Math.max(DRAW_MS, 3 * (performance.now() - beganMs));
      });
    };
    const onNews = () => {
      timer ??= setTimeout(draw, pauseMs);
    };
    void stream
      .read(this.#server, () => chatBody(asked, lane), onNews)
      .then(() => {
        clearTimeout(timer);
        this.#running.delete(running);
        this.#show(running, true);
      });
    // Stored at once, so that it can be retried where the page is closed before the first token.
    this.#show(running, true);
  }

  #show({ conversationId, turnId, lane, stream, replaced }: Running, keep: boolean): void {
    if (replaced) return;
    const { answer } = stream;
    this.#change(
      conversationId,
      (one) => ({
        ...one,
        turns: one.turns.map((turn) => (turn.id === turnId ? withAnswer(turn, lane, answer) : turn)),
      }),
      keep,
    );
  }

  #change(id: string, change: (conversation: Conversation) => Conversation, keep = true): void {
    const conversations = this.value.conversations.map((one) => (one.id === id ? change(one) : one));
    const changed = conversations.find((one) => one.id === id);
    if (changed === undefined) return;
    const unkept = keep && changed.turns.length > 0 ? !keepConversation(changed) : this.value.unkept;
    this.set({ conversations, unkept });
  }
}

function indexOf({ turns }: Conversation, turnId: string): number {
  return turns.findIndex(({ id }) => id === turnId);
}
