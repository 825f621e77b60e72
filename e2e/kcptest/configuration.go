package kcptest

// ConfigFile is the configuration file that warrantgate serves by.
func (w *Warrantgate) ConfigFile() string { return w.configFile }
