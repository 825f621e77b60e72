package events

// Permit has a recorder take Events without asking for the permission.
func Permit(r *Recorder) { r.permitted.Store(true) }
