package cloudsigmatest

// Incident is two servers with one name. A machine object got the UUID of the stale server, which an earlier attempt had created
// under another identity. The machine's own server was lost in a conflict. From then on, every request as the user was denied.
type Incident struct {
	// Region is the region of the servers.
	Region string
	// Client is the service account that impersonates both users.
	Client Client
	// User is the user that the machines' provider acts as. Other is the identity of the earlier attempt.
	User, Other User
	// Created is the server that the machine should name. Stale is the server that it names.
	Created, Stale Server
	// Sibling is the server of another machine, which is correct.
	Sibling Server
}

// Incident adds the users, the client and the servers of the incident to the cloud.
func (c *Cloud) Incident() (Incident, error) {
	const (
		region  = "next"
		machine = "metal-worker-pool-1-hl9tl-qbrcf"
		sibling = "metal-worker-pool-1-hl9tl-g2b7h"
	)
	user := c.addUser(User{UUID: "4705fb9a-0591-4ead-9d42-b2e86493f9b4", Email: "tsap@shalb.com"})
	other := c.AddUser("earlier-identity@example.com")
	client := c.AddClient("kube-dc-partner")
	return Incident{
		Region: region, Client: client, User: user, Other: other,
		Stale:   c.AddServer(region, other, machine, WithUUID("feaf4d9d-7cdc-4ecc-b2f7-bef11a0c7519")),
		Sibling: c.AddServer(region, user, sibling, WithUUID("4192fc6e-0372-4961-99fa-6dc9d4038dbf")),
		Created: c.AddServer(region, user, machine, WithUUID("63dd227a-9502-4311-919e-cd49f3416753")),
	}, c.AllowImpersonation(client.ID, user.Email, other.Email)
}
