package cli

// Version is what was built. main sets it, once, before it runs a command.
var Version = "dev"

// UserAgent is how the program calls itself in requests.
func UserAgent() string { return "warrantgate/" + Version }
