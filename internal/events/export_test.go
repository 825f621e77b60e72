package events

// Permit makes a recorder accept Events without a permission check.
func Permit(r *Recorder) { r.permitted.Store(true) }
