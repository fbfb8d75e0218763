// Asks before something is deleted.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface ConfirmProps {
  readonly title: string;
  readonly action: string;
  /** What closes it without doing anything. */
  readonly dismissal?: string;
  readonly children: ComponentChildren;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

export function Confirm({ title, action, dismissal = 'Cancel', children, onConfirm, onClose }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="confirm" aria-labelledby="confirm-title" onClose={onClose}>
      <h2 id="confirm-title">{title}</h2>
      <div>{children}</div>
      <form method="dialog" class="row">
        <button type="submit">{dismissal}</button>
        <button type="submit" class="danger" onClick={onConfirm}>
          {action}
        </button>
      </form>
    </dialog>
  );
}
