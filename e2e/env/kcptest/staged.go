package kcptest

import "context"

// PrepareWarrantgate is StartWarrantgate without the start, for whoever installs first and starts serve after that.
// Start has to follow before Stop, Kill or PID.
func PrepareWarrantgate(ctx context.Context, kcp *Server, options WarrantgateOptions) (*Warrantgate, error) {
	return NewWarrantgate(ctx, kcp, options)
}

// WaitInstalled waits until kcp holds to what install wrote, for whoever runs install by other means than Install.
func (w *Warrantgate) WaitInstalled(ctx context.Context) error { return w.waitGuarded(ctx, true) }
