"""What installs: config/install.yaml and the Helm chart config/chart, made from config/; and the plug-in for Krew."""
