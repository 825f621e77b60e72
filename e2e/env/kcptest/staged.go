package kcptest

import "context"

// PrepareWarrantgate is NewWarrantgate.
func PrepareWarrantgate(ctx context.Context, kcp *Server, options WarrantgateOptions) (*Warrantgate, error) {
	return NewWarrantgate(ctx, kcp, options)
}

// WaitInstalled waits until the admission policies of an installation are active in kcp. Install calls it.
func (w *Warrantgate) WaitInstalled(ctx context.Context) error { return w.waitGuarded(ctx, true) }
